# Drives dalli 3 (binary protocol) against one address: check_dalli.rb HOST:PORT [USER PASSWORD] [--tls CA].
# Prints a line for each check, and ends with a line `ok` and status 0.

require "dalli"
require "openssl"

Dalli.logger.level = Logger::FATAL

def same(name, got, expected)
  raise "#{name}: #{got.inspect} instead of #{expected.inspect}" unless got == expected

  puts "passed: #{name}"
end

def failure(name, kind)
  begin
    yield
  rescue kind
    return puts("passed: #{name}")
  end
  raise "#{name}: no #{kind}"
end

authority = ARGV.pop(2).last if ARGV[-2] == "--tls"
address, username, password = ARGV
options = { socket_timeout: 60, error_when_over_max_size: true, username: username, password: password }
if authority
  options[:ssl_context] = OpenSSL::SSL::SSLContext.new.tap do |context|
    context.set_params(ca_file: authority, verify_mode: OpenSSL::SSL::VERIFY_PEER)
  end
end
client = Dalli::Client.new(address, options)

same "a miss", client.get("rb:a"), nil
same "set", client.set("rb:a", "one", 100).nil?, false
same "get", client.get("rb:a"), "one"
[17, { "a" => [1, nil] }, "", "é\r\nEND\r\n", :symbol, "x" * 100_000].each do |value|
  client.set("rb:v", value)
  same "#{value.class} comes back as it was", client.get("rb:v"), value
end
same "add over a value", client.add("rb:a", "two"), false
same "add", client.add("rb:b", "2", 100, raw: true).nil?, false
same "replace", client.replace("rb:b", "3", 100, raw: true).nil?, false
client.replace("rb:none", "x")
same "replace of nothing", client.get("rb:none"), nil
same "append", client.append("rb:b", "4"), true
same "prepend", client.prepend("rb:b", "2"), true
same "both took effect", client.get("rb:b", raw: true), "234"

same "cas", client.cas("rb:a") { |value| "#{value}!" }.nil?, false
same "it took effect", client.get("rb:a"), "one!"
same "cas of nothing", client.cas("rb:none") { raise "nothing to change" }, nil
late = client.cas("rb:a") do |value|
  Dalli::Client.new(address, options).set("rb:a", "meanwhile")
  "#{value} late"
end
same "a late cas", late, false
same "only the first took effect", client.get("rb:a"), "meanwhile"
same "fetch of nothing", client.fetch("rb:fetch") { "made" }, "made"
same "fetch", client.fetch("rb:fetch") { raise "it is there" }, "made"

same "incr creates", client.incr("rb:n", 5, 100, 10), 10
same "incr", client.incr("rb:n", 5), 15
same "decr", client.decr("rb:n", 7), 8
same "decr stops at nought", client.decr("rb:n", 70), 0
same "incr of nothing", client.incr("rb:none"), nil
failure("incr of a word", Dalli::DalliError) { client.incr("rb:a") }

same "touch", client.touch("rb:a", 100), true
same "touch of nothing", client.touch("rb:none", 100), nil
same "get and touch", client.gat("rb:a", 100), "meanwhile"
same "delete", client.delete("rb:a"), true
same "delete of nothing", client.delete("rb:a") || false, false

# get_multi of this version asks its socket for the server, which one of TLS does not know.
many = lambda do |wanted|
  authority ? wanted.to_h { |key| [key, client.get(key)] }.compact : client.get_multi(*wanted)
end
keys = (0...300).map { |n| "rb:many:#{n}" }
client.multi { keys.each { |key| client.set(key, key) } }
same "many quiet sets, then many keys at once", many.call([*keys, "rb:absent"]), keys.to_h { |key| [key, key] }
client.multi { keys.each { |key| client.delete(key) } }
same "many quiet deletes", many.call(keys), {}

failure("a value beyond the limit", Dalli::ValueOverMaxSize) { client.set("rb:huge", Random.bytes(1 << 20), 0, raw: true) }
same "the next command is answered", client.get("rb:fetch"), "made"
# The client makes 250 bytes of a longer key. A pool with a directory takes shorter ones.
longest = "k" * ENV.fetch("KEY_MAX", 400).to_i
same "a long key", client.set(longest, "x").nil?, false
same "it is found", client.get(longest), "x"
stats = client.stats.values.first
same "stats", stats["pid"].to_i.positive? && stats["cmd_set"].to_i.positive?, true
same "version", client.version.values.first.empty?, false
same "flush", client.flush_all, [true]
same "all is gone", client.get("rb:b"), nil

if username
  [{ password: "wrong" }, { username: nil, password: nil }].each do |wrong|
    stranger = Dalli::Client.new(address, options.merge(wrong))
    failure("#{wrong}", Dalli::DalliError) { stranger.get("rb:b") }
  end
end
client.close
puts "ok"
