// Judges histories of single keys by Porcupine, beside the checker of the simulator.
//
// Standard input has an operation a line: key, call, return, what was done, and a value; for "c", the value that
// had to be there, too. Times are nanoseconds; a return of -1 is one that never came. What was done:
//
//	r  read the value; 0 is a miss
//	w  wrote the value
//	c  wrote the value where another was
//
// A cache may lose a value at any time, so a miss says that there is nothing from then on. What never returned
// may have happened at any time after its call, or never: at the end of the history it is seen by nobody.
//
// Standard output has "key ok", "key illegal" or "key unknown" for each key.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	what            byte
	value, expected uint64
	// Whether an answer said that it was done.
	isDone bool
}

var cache = porcupine.Model{
	Init: func() interface{} { return uint64(0) },
	Step: func(state, input, _ interface{}) (bool, interface{}) {
		held, did := state.(uint64), input.(operation)
		switch did.what {
		case 'r':
			return did.value == 0 || did.value == held, did.value
		case 'w':
			return true, did.value
		}
		if held == did.expected {
			return true, did.value
		}
		return !did.isDone, held
	},
}

func main() {
	histories := map[int][]porcupine.Operation{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var key int
		var call, back int64
		var what string
		var did operation
		read, _ := fmt.Sscan(lines.Text(), &key, &call, &back, &what, &did.value, &did.expected)
		if read < 5 || len(what) != 1 {
			fmt.Fprintf(os.Stderr, "%q is no operation\n", lines.Text())
			os.Exit(2)
		}
		did.what = what[0]
		did.isDone = back >= 0
		if !did.isDone {
			back = math.MaxInt64
		}
		histories[key] = append(histories[key], porcupine.Operation{Input: did, Call: call, Return: back})
	}
	keys := []int{}
	for key := range histories {
		keys = append(keys, key)
	}
	sort.Ints(keys)
	for _, key := range keys {
		verdict := map[porcupine.CheckResult]string{
			porcupine.Ok: "ok", porcupine.Illegal: "illegal", porcupine.Unknown: "unknown",
		}[porcupine.CheckOperationsTimeout(cache, histories[key], 10*time.Minute)]
		fmt.Println(key, verdict)
	}
}
