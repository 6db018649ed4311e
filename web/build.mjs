// Makes dist/ of src/, the same bytes on every machine, or another folder with --out FOLDER; with --tests the tests in target/ instead.

import { build } from 'esbuild';
import { copyFile, mkdir, readFile, readdir, writeFile } from 'node:fs/promises';

const asked = process.argv.slice(2);
const out = asked[0] === '--out' ? asked[1] : `${import.meta.dirname}/dist`;
const BUNDLED = ['preact', 'uplot'];

const options = {
  absWorkingDir: import.meta.dirname,
  bundle: true,
  format: 'esm',
  target: 'es2022',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  logLevel: 'warning',
};

if (asked[0] === '--tests') {
  const names = await readdir(`${import.meta.dirname}/tests`);
  await build({ ...options, platform: 'node', entryPoints: names.map((name) => `tests/${name}`), outdir: 'target' });
} else {
  await mkdir(out, { recursive: true });
  await build({ ...options, minify: true, legalComments: 'none', entryPoints: ['src/page.tsx', 'src/proxy.tsx', 'src/page.css'], outdir: out });
  for (const name of ['index.html', 'proxy.html', 'icon.svg']) {
    await copyFile(`${import.meta.dirname}/src/${name}`, `${out}/${name}`);
  }
  const licences = BUNDLED.map(async (name) => {
    const folder = `${import.meta.dirname}/node_modules/${name}`;
    const { version } = JSON.parse(await readFile(`${folder}/package.json`, 'utf8'));
    return `${name} ${version}\n\n${(await readFile(`${folder}/LICENSE`, 'utf8')).trim()}\n`;
  });
  const head = 'page.js, proxy.js and page.css contain the following.\n';
  await writeFile(`${out}/LICENSES.txt`, [head, ...(await Promise.all(licences))].join('\n'));
}
