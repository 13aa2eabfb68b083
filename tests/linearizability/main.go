// SPDX-License-Identifier: Apache-2.0

// Records what concurrent clients of a server see, and proves each history linearizable with
// Porcupine, or prints where it is not.
//
// A history is short: a few clients start together on fresh keys, and each does some commands of one
// workload (workloads.go). Its specification is spec.go: a small Redis that does one command after
// another. Since its one object is the whole key space, MSET against MGET and EXEC over several keys
// are checked for strict serializability.
//
// With --break the clients carry each command out in steps, as a server without atomicity would.
// Then every workload has to be found out: so the checker is checked.
//
// With --crashes the server is killed in the middle of each history, and starts again with what it
// has on its disk: whoever runs this does that when it reads "crash", and answers with a line that
// has the address when the server is up. A command whose reply did not come may have been carried out, or not.
//
// With names of files it is a checker only: each has a history that somebody else has recorded, in the
// form that this program writes, and a line tells what it is.
//
// Exit status: 0 all is as it should be; 1 a history is not linearizable (with --break: a workload
// was not found out), or could not be decided; 2 the server failed, or the arguments are wrong.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

var (
	address    = flag.String("address", "127.0.0.1:6379", "host:port of the server")
	seconds    = flag.Float64("seconds", 1.8, "time for each workload")
	seed       = flag.Int64("seed", 0, "of the commands that clients send; 0: of the clock")
	clients    = flag.Int("clients", 8, "of a history")
	operations = flag.Int("operations", 12, "of each client in a history, or pipelines")
	only       = flag.String("only", "", "the workload to run; default: all")
	directory  = flag.String("directory", ".", "where a bad history is written to")
	crashes    = flag.Bool("crashes", false, "have the server killed in the middle of each history")
	broken     = flag.Bool("break", false, "break the commands, and see that each workload notices")
)

// How long Porcupine may think about one history. They are small: it takes milliseconds.
const checkTimeout = 20 * time.Second

// The same with --crashes: operations without a reply overlap all that comes after them, and now and
// then that is too much. Such a history says nothing, as long as others do.
const crashCheckTimeout = 5 * time.Second

func fail(format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, "linearizability: "+format+"\n", args...)
	os.Exit(2)
}

// record runs one history: all clients start together.
func record(w workload, conns []*conn, round int, rng *rand.Rand) []porcupine.Operation {
	all := make([]*client, len(conns))
	errs := make([]error, len(conns))
	start := make(chan struct{})
	killed := newCrash(rng.Intn(len(conns) * *operations * 2 / 3))
	var done sync.WaitGroup
	clock := time.Now()
	prefix := fmt.Sprintf("%s:%d:%x:", w.name, round, rng.Int63())
	for i := range conns {
		all[i] = &client{conn: conns[i], number: i, prefix: prefix, clock: clock, broken: *broken,
			last: map[string]string{}}
		g := &generator{rng: rand.New(rand.NewSource(rng.Int63())), client: i}
		done.Add(1)
		go func(i int) {
			defer done.Done()
			<-start
			for n := 0; n < *operations && errs[i] == nil; n++ {
				killed.count()
				errs[i] = all[i].run(w.next(g))
				if errs[i] != nil && *crashes {
					errs[i] = all[i].reconnect(killed)
				}
			}
		}(i)
	}
	close(start)
	done.Wait()
	if *crashes {
		killed.wait()
	}
	var history []porcupine.Operation
	for i, c := range all {
		if errs[i] != nil {
			fail("%s, client %d: %v", w.name, i, errs[i])
		}
		if *crashes {
			if err := c.reconnect(killed); err != nil {
				fail("%s, client %d: %v", w.name, i, err)
			}
			conns[i] = c.conn
		}
		history = append(history, c.history...)
	}
	cleanUp := []string{"DEL"}
	for i := 0; i < keyCount; i++ {
		cleanUp = append(cleanUp, fmt.Sprintf("%sk%d", prefix, i))
	}
	if _, err := conns[0].call(cleanUp...); err != nil {
		fail("%s: DEL: %v", w.name, err)
	}
	return history
}

// crash is the one of a history: it comes when so many operations have begun.
type crash struct {
	left atomic.Int64
	up   chan struct{} // closed when the server runs again
}

func newCrash(after int) *crash {
	k := &crash{up: make(chan struct{})}
	k.left.Store(int64(after))
	return k
}

func (k *crash) count() {
	if *crashes && k.left.Add(-1) == -1 {
		go k.run()
	}
}

func (k *crash) run() {
	fmt.Println("crash")
	line, err := answers.ReadString('\n')
	if err != nil {
		fail("the server did not start again: %v", err)
	}
	*address = strings.TrimSpace(line)
	close(k.up)
}

func (k *crash) wait() { <-k.up }

var answers = bufio.NewReader(os.Stdin)

// write puts a history into a file as lines of JSON, and as a page that draws it.
func write(w workload, round int, history []porcupine.Operation, info porcupine.LinearizationInfo) string {
	if err := os.MkdirAll(*directory, 0o755); err != nil {
		fail("%v", err)
	}
	base := filepath.Join(*directory, fmt.Sprintf("%s-%d-%d", w.name, *seed, round))
	file, err := os.Create(base + ".jsonl")
	if err != nil {
		fail("%v", err)
	}
	defer file.Close()
	encoder := json.NewEncoder(file)
	for _, op := range history {
		if err := encoder.Encode(op); err != nil {
			fail("%v", err)
		}
	}
	if err := porcupine.VisualizePath(w.model, info, base+".html"); err != nil {
		fail("%v", err)
	}
	return base + ".jsonl and .html"
}

// check runs one workload for its time; false: it was found out.
func check(w workload) bool {
	rng := rand.New(rand.NewSource(*seed))
	conns := make([]*conn, *clients)
	if w.pipeline > 1 {
		conns = conns[:(*clients+w.pipeline-1)/w.pipeline]
	}
	for i := range conns {
		var err error
		if conns[i], err = dial(*address); err != nil {
			fail("%v", err)
		}
		defer conns[i].close()
	}
	began := time.Now()
	count, longest := 0, time.Duration(0)
	round, undecided := 0, 0
	for ; round < 3 || time.Since(began).Seconds() < *seconds; round++ {
		history := record(w, conns, round, rng)
		for i := range history {
			op := history[i].Input.(operation)
			op.call, op.ended = history[i].Call, history[i].Return
			history[i].Input = op
		}
		count += len(history)
		thinking := time.Now()
		timeout := checkTimeout
		if *crashes {
			timeout = crashCheckTimeout
		}
		result, info := porcupine.CheckOperationsVerbose(w.model, history, timeout)
		if t := time.Since(thinking); t > longest {
			longest = t
		}
		if result == porcupine.Ok {
			continue
		}
		if result == porcupine.Unknown && *crashes && undecided < round {
			undecided++
			continue
		}
		what := "NOT LINEARIZABLE"
		if result == porcupine.Unknown {
			what = "not decided in time"
		}
		fmt.Printf("%-20s history %d of seed %d (%d operations): %s, see %s\n", w.name, round, *seed,
			len(history), what, write(w, round, history, info))
		return false
	}
	fmt.Printf("%-20s %5d histories of %d clients, %7d operations: linearizable (longest check %v)\n",
		w.name, round-undecided, len(conns), count, longest.Round(time.Millisecond))
	return true
}

// knows tells whether the server has a command; such a call has no effect.
func knows(name string) bool {
	c, err := dial(*address)
	if err != nil {
		fail("%v", err)
	}
	defer c.close()
	reply, err := c.call(name)
	if err != nil {
		fail("%v", err)
	}
	return !strings.Contains(reply, "unknown command")
}

func main() {
	flag.Parse()
	if flag.NArg() > 0 {
		checkFiles(flag.Args())
		return
	}
	if *clients < 2 || *operations < 1 {
		fail("there have to be at least two clients, and one operation")
	}
	if *seed == 0 {
		*seed = time.Now().UnixNano() % 1_000_000_000
	}
	fmt.Printf("seed %d\n", *seed)
	ran, linearizable := 0, 0
	for _, w := range workloads {
		if *only != "" && w.name != *only {
			continue
		}
		if *crashes && w.stays {
			continue
		}
		if w.needs != "" && !knows(w.needs) {
			fmt.Printf("%-20s SKIPPED: the server does not know %s\n", w.name, w.needs)
			continue
		}
		ran++
		if check(w) {
			linearizable++
		}
	}
	switch {
	case ran == 0:
		fail("no workload ran")
	case *broken && linearizable > 0:
		fmt.Printf("%d of %d broken workloads were not found out\n", linearizable, ran)
		os.Exit(1)
	case *broken:
		fmt.Printf("all %d broken workloads were found out\n", ran)
	case linearizable < ran:
		fmt.Printf("%d of %d workloads failed; seed %d\n", ran-linearizable, ran, *seed)
		os.Exit(1)
	default:
		fmt.Printf("all %d workloads are linearizable\n", ran)
	}
}
