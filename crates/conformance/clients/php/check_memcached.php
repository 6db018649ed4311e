<?php
// Drives php-memcached (libmemcached) against one address: check_memcached.php HOST PORT text|binary
// [USER PASSWORD]. Prints a line for each check, and ends with a line `ok` and status 0.

declare(strict_types=1);

function same(string $name, mixed $got, mixed $expected): void
{
    if ($got !== $expected) {
        fwrite(STDERR, "$name: " . var_export($got, true) . ' instead of ' . var_export($expected, true) . "\n");
        exit(1);
    }
    echo "passed: $name\n";
}

function connect(array $arguments): Memcached
{
    [, $host, $port, $protocol] = $arguments;
    $client = new Memcached();
    $client->setOption(Memcached::OPT_BINARY_PROTOCOL, $protocol === 'binary');
    $client->setOption(Memcached::OPT_TCP_NODELAY, true);
    $client->setOption(Memcached::OPT_COMPRESSION, false);
    $client->setOption(Memcached::OPT_SERVER_FAILURE_LIMIT, 100);
    if (isset($arguments[4])) {
        $client->setSaslAuthData($arguments[4], $arguments[5]);
    }
    $client->addServer($host, (int) $port);
    return $client;
}

$client = connect($argv);
$binary = $argv[3] === 'binary';

same('a miss', $client->get('php:a'), false);
same('it is told as one', $client->getResultCode(), Memcached::RES_NOTFOUND);
foreach (['text', 17, 2.5, true, ['a' => [1, null]], '', "é\r\nEND\r\n", str_repeat("0123456789", 60000)] as $value) {
    same('set of ' . gettype($value), $client->set('php:v', $value, 100), true);
    same('it comes back as it was', $client->get('php:v'), $value);
}
$client->set('php:a', 'one');
same('add over a value', $client->add('php:a', 'two'), false);
same('it is told as one', $client->getResultCode(), $binary ? Memcached::RES_DATA_EXISTS : Memcached::RES_NOTSTORED);
same('add', $client->add('php:b', '2'), true);
same('replace', $client->replace('php:b', '3'), true);
same('replace of nothing', $client->replace('php:none', 'x'), false);
same('append', $client->append('php:b', '4'), true);
same('prepend', $client->prepend('php:b', '2'), true);
same('both took effect', $client->get('php:b'), '234');
same('append to nothing', $client->append('php:none', 'x'), false);

$found = $client->get('php:a', null, Memcached::GET_EXTENDED);
same('get with a CAS unique', $found['value'], 'one');
same('cas', $client->cas($found['cas'], 'php:a', 'first'), true);
same('a late cas', $client->cas($found['cas'], 'php:a', 'late'), false);
same('it is told as one', $client->getResultCode(), Memcached::RES_DATA_EXISTS);
same('only the first took effect', $client->get('php:a'), 'first');

$client->set('php:n', 5);
same('increment', $client->increment('php:n', 10), 15);
same('decrement stops at nought', $client->decrement('php:n', 20), 0);
same('increment of nothing', $client->increment('php:none', 1), false);
if ($binary) {
    same('increment creates', $client->increment('php:new', 1, 10, 100), 10);
    same('increment of what it created', $client->increment('php:new', 1, 10, 100), 11);
}
same('increment of a word', @$client->increment('php:a', 1), false);

same('touch', $client->touch('php:a', 100), true);
same('touch of nothing', $client->touch('php:none', 100), false);
same('delete', $client->delete('php:a'), true);
same('delete of nothing', $client->delete('php:a'), false);

$many = [];
for ($n = 0; $n < 400; $n++) {
    $many["php:many:$n"] = str_repeat('v', $n);
}
same('many sets', $client->setMulti($many, 100), true);
$found = $client->getMulti(array_merge(array_keys($many), ['php:absent']));
ksort($found);
ksort($many);
same('many gets', $found, $many);
$delayed = $client->getDelayed(['php:many:1', 'php:many:2'], true);
same('a delayed get', $delayed && count($client->fetchAll()) === 2, true);
same('many deletes', array_filter($client->deleteMulti(array_keys($many)), fn ($done) => $done !== true), []);
same('all are gone', $client->getMulti(array_keys($many)), []);

$client->setOption(Memcached::OPT_NOREPLY, true);
$client->set('php:quiet', 'x');
$client->setOption(Memcached::OPT_NOREPLY, false);
same('a set without an answer', $client->get('php:quiet'), 'x');

same('a value beyond the limit', $client->set('php:huge', str_repeat('x', (1 << 20) + 1)), false);
same('the next command is answered', $client->get('php:b'), '234');
// A pool with a directory takes shorter keys.
$longest = str_repeat('k', (int) (getenv('KEY_MAX') ?: 250));
same('the longest key', $client->set($longest, 'x') && $client->get($longest) === 'x', true);
$stats = array_values($client->getStats())[0];
same('stats', $stats['pid'] > 0 && $stats['cmd_set'] > 0, true);
same('version', count($client->getVersion()), 1);
same('flush', $client->flush(), true);
same('all is gone', $client->get('php:b'), false);

if (isset($argv[4])) {
    $stranger = connect([$argv[0], $argv[1], $argv[2], $argv[3], $argv[4], 'wrong']);
    same('a wrong password', $stranger->set('php:b', 'x'), false);
}
$client->quit();
echo "ok\n";
