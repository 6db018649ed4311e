// What the checks share: each prints a line, and the last is `ok`.
"use strict";

const assert = require("node:assert");

/** Prints the name of what was shown; throws when it was not. */
function same(name, got, expected) {
  assert.deepStrictEqual(got, expected, name);
  console.log(`passed: ${name}`);
}

/** What `promise` fails with; throws when it does not fail. */
async function failure(name, promise) {
  let value;
  try {
    value = await promise;
  } catch (error) {
    console.log(`passed: ${name}`);
    return error;
  }
  throw new Error(`${name}: no error, but ${value}`);
}

/** Runs `check`, then ends the program whatever sockets are still open. */
function run(check) {
  check().then(
    () => {
      console.log("ok");
      process.exit(0);
    },
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}

/** Bytes of all kinds, `length` of them. */
function bytes(length) {
  return Buffer.from(Uint8Array.from({ length }, (_, n) => n % 256));
}

module.exports = { bytes, failure, run, same };
