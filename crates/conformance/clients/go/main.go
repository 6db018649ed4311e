// Drives gomemcache (classic text protocol) against one address: clientcheck HOST:PORT [--tls CA].
// Ends with a line "ok" and status 0, or with what failed.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// must ends the program when an operation that has to succeed did not.
func must(what string, err error) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

// want ends the program when the error is not the one expected.
func want(what string, got, expected error) {
	if !errors.Is(got, expected) {
		fail("%s: got %v, expected %v", what, got, expected)
	}
}

func fail(format string, arguments ...interface{}) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

func value(client *memcache.Client, key string) string {
	item, err := client.Get(key)
	must("get "+key, err)
	return string(item.Value)
}

func main() {
	client := memcache.New(os.Args[1])
	client.Timeout = 60 * time.Second
	if len(os.Args) > 3 && os.Args[2] == "--tls" {
		client.DialContext = tlsDialer(os.Args[3]).DialContext
	}

	stores(client)
	manyKeys(client)
	counting(client)
	times(client)
	manyGoroutines(client)
	must("ping", client.Ping())
	must("close", client.Close())
	fmt.Println("ok")
}

// tlsDialer trusts the authority alone whose certificate the file holds.
func tlsDialer(authority string) *tls.Dialer {
	pem, err := os.ReadFile(authority)
	must("read of the authority", err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		fail("%s holds no certificate", authority)
	}
	return &tls.Dialer{Config: &tls.Config{RootCAs: roots}}
}

func stores(client *memcache.Client) {
	_, err := client.Get("go:a")
	want("get of nothing", err, memcache.ErrCacheMiss)
	must("set", client.Set(&memcache.Item{Key: "go:a", Value: []byte("1"), Flags: 77}))
	item, err := client.Get("go:a")
	must("get", err)
	if string(item.Value) != "1" || item.Flags != 77 {
		fail("get gave %q with flags %d", item.Value, item.Flags)
	}
	want("add over", client.Add(&memcache.Item{Key: "go:a"}), memcache.ErrNotStored)
	must("add", client.Add(&memcache.Item{Key: "go:b", Value: []byte("2")}))
	want("replace of nothing", client.Replace(&memcache.Item{Key: "go:c"}), memcache.ErrNotStored)
	must("replace", client.Replace(&memcache.Item{Key: "go:b", Value: []byte("3")}))
	must("append", client.Append(&memcache.Item{Key: "go:b", Value: []byte("4")}))
	must("prepend", client.Prepend(&memcache.Item{Key: "go:b", Value: []byte("2")}))
	if got := value(client, "go:b"); got != "234" {
		fail("append and prepend made %q", got)
	}
	large := bytes.Repeat([]byte("0123456789\r\n"), 50_000)
	must("set of a large value", client.Set(&memcache.Item{Key: "go:large", Value: large}))
	if value(client, "go:large") != string(large) {
		fail("a large value came back changed")
	}
	if client.Set(&memcache.Item{Key: "go:huge", Value: make([]byte, 1<<20+1)}) == nil {
		fail("a value beyond the item limit must be refused")
	}
	want("set of a bad key", client.Set(&memcache.Item{Key: "go: bad"}), memcache.ErrMalformedKey)

	first, err := client.Get("go:a")
	must("get", err)
	second, err := client.Get("go:a")
	must("get", err)
	first.Value = []byte("first")
	must("compare and swap", client.CompareAndSwap(first))
	second.Value = []byte("second")
	want("a late compare and swap", client.CompareAndSwap(second), memcache.ErrCASConflict)
	must("delete", client.Delete("go:a"))
	want("delete of nothing", client.Delete("go:a"), memcache.ErrCacheMiss)
	// gomemcache says "not stored" when the item is gone.
	if client.CompareAndSwap(second) == nil {
		fail("compare and swap of nothing must fail")
	}
}

func manyKeys(client *memcache.Client) {
	var keys []string
	for n := 0; n < 500; n++ {
		key := fmt.Sprintf("go:many:%d", n)
		keys = append(keys, key, fmt.Sprintf("go:absent:%d", n))
		must("set", client.Set(&memcache.Item{Key: key, Value: []byte(key)}))
	}
	items, err := client.GetMulti(keys)
	must("get of many", err)
	if len(items) != 500 {
		fail("get of many found %d of 500", len(items))
	}
	for key, item := range items {
		if string(item.Value) != key {
			fail("%s holds %q", key, item.Value)
		}
	}
}

func counting(client *memcache.Client) {
	_, err := client.Increment("go:n", 1)
	want("incr of nothing", err, memcache.ErrCacheMiss)
	// The number that is stored stays below 2^63: memcached 1.6.18 looks for a minus sign behind a larger one, as
	// far as the next zero byte, and finds those of items that were in its memory before.
	must("set", client.Set(&memcache.Item{Key: "go:n", Value: []byte("9223372036854775807")}))
	for _, step := range []struct {
		operation func(string, uint64) (uint64, error)
		delta     uint64
		expected  uint64
	}{
		{client.Increment, 9223372036854775814, 5},
		{client.Decrement, 2, 3},
		{client.Decrement, 10, 0},
	} {
		got, err := step.operation("go:n", step.delta)
		must("incr or decr", err)
		if got != step.expected {
			fail("counted to %d, expected %d", got, step.expected)
		}
	}
	must("set", client.Set(&memcache.Item{Key: "go:n", Value: []byte("word")}))
	if _, err = client.Increment("go:n", 1); err == nil {
		fail("incr of a word must be refused")
	}
}

func times(client *memcache.Client) {
	want("touch of nothing", client.Touch("go:t", 10), memcache.ErrCacheMiss)
	must("set", client.Set(&memcache.Item{Key: "go:t", Value: []byte("x"), Expiration: 100}))
	must("touch", client.Touch("go:t", 100))
	item, err := client.GetAndTouch("go:t", -1)
	must("get and touch", err)
	if string(item.Value) != "x" {
		fail("get and touch gave %q", item.Value)
	}
	_, err = client.Get("go:t")
	want("get of an expired item", err, memcache.ErrCacheMiss)
}

// manyGoroutines: connections at the same time, each in step with its own answers.
func manyGoroutines(client *memcache.Client) {
	var group sync.WaitGroup
	for worker := 0; worker < 16; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for n := 0; n < 100; n++ {
				key := fmt.Sprintf("go:worker:%d:%d", worker, n)
				must("set", client.Set(&memcache.Item{Key: key, Value: []byte(key)}))
				if got := value(client, key); got != key {
					fail("%s holds %q", key, got)
				}
			}
		}(worker)
	}
	group.Wait()
}
