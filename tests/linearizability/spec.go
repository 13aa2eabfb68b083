// SPDX-License-Identifier: Apache-2.0
package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// The keys of a history are named k0 ... k5; on the server each has its history's prefix.
const keyCount = 6

// operation is a command as a client sent it. EXEC has the commands of its transaction, and with
// WATCH what the client read of the watched keys before.
type operation struct {
	Args    []string
	Body    []operation `json:",omitempty"`
	Watched []string    `json:",omitempty"` // keys
	Seen    []string    `json:",omitempty"` // replies to GET of each

	call, ended int64 // when, for modelOfWaits
}

func command(args ...string) operation { return operation{Args: args} }

func (op operation) String() string {
	text := strings.Join(op.Args, " ")
	for _, inner := range op.Body {
		text += "; " + inner.String()
	}
	for i, key := range op.Watched {
		text += fmt.Sprintf("; if %s is still %s", key, op.Seen[i])
	}
	return text
}

func (op operation) name() string { return op.Args[0] }

// replyCount is how many replies the operation has on the wire: of MULTI and the queue, too.
func (op operation) replyCount() int {
	if op.name() == "EXEC" {
		return len(op.Body) + 2
	}
	return 1
}

// hasOneKey tells whether modelByKey knows it.
func (op operation) hasOneKey() bool {
	if len(op.Args) < 2 || keyIndex(op.Args[1]) < 0 {
		return false
	}
	for _, arg := range op.Args[2:] {
		if keyIndex(arg) >= 0 {
			return false
		}
	}
	return true
}

// unknown is the reply of an operation that got none, as the server was killed.
const unknown = "?"

// isReply tells whether the server may have said so.
func isReply(said, expected string) bool { return said == expected || said == unknown }

func keyIndex(arg string) int {
	if len(arg) == 2 && arg[0] == 'k' && arg[1] >= '0' && arg[1] < '0'+keyCount {
		return int(arg[1] - '0')
	}
	return -1
}

// state is all keys of a history. A value is "" if there is no such key, "$text" for a string, and
// "l" with ",element" for each element of a list. Comparable, and copied by assignment.
type state [keyCount]string

const (
	wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value"
	notInt    = "-ERR value is not an integer or out of range"
	noSuchKey = "-ERR no such key"
)

func isList(value string) bool { return strings.HasPrefix(value, "l,") }

func elements(value string) []string {
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")[1:]
}

func listOf(items []string) string {
	if len(items) == 0 {
		return ""
	}
	return "l," + strings.Join(items, ",")
}

func number(n int) string { return fmt.Sprintf(":%d", n) }

// apply carries the command out, alone and at once, and returns its reply: what Redis says about it.
func (s *state) apply(op operation) string {
	args := op.Args[1:]
	at := func(i int) *string { return &s[keyIndex(args[i])] }
	bulk := func(value string) string {
		switch {
		case value == "":
			return "nil"
		case isList(value):
			return wrongType
		}
		return value
	}
	switch op.name() {
	case "GET":
		return bulk(*at(0))
	case "SET":
		*at(0) = "$" + args[1]
		return "+OK"
	case "APPEND":
		if isList(*at(0)) {
			return wrongType
		}
		*at(0) = "$" + strings.TrimPrefix(*at(0), "$") + args[1]
		return number(len(*at(0)) - 1)
	case "INCR", "INCRBY":
		by := 1
		if len(args) > 1 {
			by, _ = strconv.Atoi(args[1])
		}
		value := *at(0)
		if isList(value) {
			return wrongType
		}
		n := 0
		if value != "" {
			var err error
			if n, err = strconv.Atoi(value[1:]); err != nil {
				return notInt
			}
		}
		*at(0) = fmt.Sprintf("$%d", n+by)
		return number(n + by)
	case "MSET", "MSETNX":
		for i := 0; op.name() == "MSETNX" && i < len(args); i += 2 {
			if *at(i) != "" {
				return ":0"
			}
		}
		for i := 0; i < len(args); i += 2 {
			*at(i) = "$" + args[i+1]
		}
		if op.name() == "MSETNX" {
			return ":1"
		}
		return "+OK"
	case "MGET":
		items := make([]string, len(args))
		for i := range args {
			if items[i] = bulk(*at(i)); items[i] == wrongType {
				items[i] = "nil"
			}
		}
		return array(items)
	case "DEL", "EXISTS":
		n := 0
		for i := range args {
			if *at(i) != "" {
				n++
			}
			if op.name() == "DEL" {
				*at(i) = ""
			}
		}
		return number(n)
	case "RENAME", "RENAMENX":
		from, to := at(0), at(1)
		if *from == "" {
			return noSuchKey
		}
		if op.name() == "RENAMENX" && *to != "" {
			return ":0"
		}
		value := *from
		*from = ""
		*to = value
		if op.name() == "RENAMENX" {
			return ":1"
		}
		return "+OK"
	case "FLUSHALL":
		*s = state{}
		return "+OK"
	case "RPUSH", "LPUSH":
		if *at(0) != "" && !isList(*at(0)) {
			return wrongType
		}
		items := elements(*at(0))
		for _, item := range args[1:] {
			if op.name() == "RPUSH" {
				items = append(items, item)
			} else {
				items = append([]string{item}, items...)
			}
		}
		*at(0) = listOf(items)
		return number(len(items))
	case "LPOP", "RPOP":
		if *at(0) != "" && !isList(*at(0)) {
			return wrongType
		}
		item := s.pop(keyIndex(args[0]), op.name() == "LPOP")
		if item == "" {
			return "nil"
		}
		return "$" + item
	case "LLEN":
		if *at(0) != "" && !isList(*at(0)) {
			return wrongType
		}
		return number(len(elements(*at(0))))
	case "LRANGE": // all of it
		if *at(0) != "" && !isList(*at(0)) {
			return wrongType
		}
		items := elements(*at(0))
		for i := range items {
			items[i] = "$" + items[i]
		}
		return array(items)
	case "LMOVE", "BLMOVE":
		if (*at(0) != "" && !isList(*at(0))) || (*at(0) != "" && *at(1) != "" && !isList(*at(1))) {
			return wrongType
		}
		item := s.pop(keyIndex(args[0]), args[2] == "LEFT")
		if item == "" {
			return "nil"
		}
		items := elements(*at(1))
		if args[3] == "LEFT" {
			items = append([]string{item}, items...)
		} else {
			items = append(items, item)
		}
		*at(1) = listOf(items)
		return "$" + item
	case "BLPOP": // nil is the end of its time: it may come only if there was nothing at some moment
		for i := range args[:len(args)-1] {
			if isList(*at(i)) {
				return array([]string{"$" + args[i], "$" + s.pop(keyIndex(args[i]), true)})
			}
		}
		return "nil"
	case "EXEC":
		for i, key := range op.Watched {
			if bulk(s[keyIndex(key)]) != op.Seen[i] {
				return "nil"
			}
		}
		replies := make([]string, len(op.Body))
		for i, inner := range op.Body {
			replies[i] = s.apply(inner)
		}
		return array(replies)
	}
	return s.applyToType(op)
}

// pop takes an end of a list; "" if there is none.
func (s *state) pop(key int, left bool) string {
	items := elements(s[key])
	if len(items) == 0 {
		return ""
	}
	at := len(items) - 1
	if left {
		at = 0
	}
	item := items[at]
	s[key] = listOf(append(append([]string{}, items[:at]...), items[at+1:]...))
	return item
}

// model: the whole key space is one object, so a history of commands over several keys that is
// linearizable is strictly serializable.
var model = porcupine.Model{
	Init: func() interface{} { return state{} },
	Step: func(before, input, output interface{}) (bool, interface{}) {
		s := before.(state)
		reply := s.apply(input.(operation))
		return isReply(output.(string), reply), s
	},
	DescribeOperation: func(input, output interface{}) string {
		return fmt.Sprintf("%v -> %v", input, output)
	},
	DescribeState: func(s interface{}) string { return fmt.Sprintf("%q", s.(state)) },
}

// waitState also knows when what has filled a list was over.
type waitState struct {
	state
	filled [keyCount]int64
}

// modelOfWaits: a BLPOP that need not wait takes from the first of its keys that is a list, in the order
// in which it names them. For one that waits Redis promises something else: it gets what comes first,
// whichever of its keys that goes to. So a key that was filled after BLPOP had come may be passed over,
// one that was filled before may not.
//
// Could more be asked for, as Redis does one command after another: that of the keys filled while it waits
// the one that was filled first serves? Not of a server that has its keys on several threads. LMOVE from a to b
// takes effect on two of them, not at one time. A client may see that a has lost its element, and push
// another to c, before b has got it. Who waits for b and c gets that of c: c's shard cannot know of b, unless
// each push to a list somebody waits for would ask all the other shards that he waits at.
var modelOfWaits = porcupine.Model{
	Init: func() interface{} { return waitState{} },
	Step: func(before, input, output interface{}) (bool, interface{}) {
		s := before.(waitState)
		op := input.(operation)
		was := s.state
		asked := op
		if parts := strings.Fields(strings.Trim(output.(string), "[]")); op.name() == "BLPOP" && len(parts) == 2 {
			for _, key := range op.Args[1 : len(op.Args)-1] {
				if key == parts[0][1:] {
					break
				}
				if i := keyIndex(key); isList(s.state[i]) && s.filled[i] <= op.call {
					return false, s
				}
			}
			asked = command("BLPOP", parts[0][1:], "0")
		}
		reply := s.apply(asked)
		for i := range s.filled {
			if !isList(s.state[i]) {
				s.filled[i] = 0
			} else if !isList(was[i]) {
				s.filled[i] = op.ended
			}
		}
		return reply == output.(string), s
	},
	DescribeOperation: model.DescribeOperation,
	DescribeState:     func(s interface{}) string { return fmt.Sprintf("%q", s.(waitState).state) },
}

// modelByKey: for histories whose commands have one key each; much cheaper to check.
var modelByKey = func() porcupine.Model {
	m := model
	m.Partition = func(history []porcupine.Operation) [][]porcupine.Operation {
		var parts [keyCount][]porcupine.Operation
		for _, op := range history {
			key := keyIndex(op.Input.(operation).Args[1])
			parts[key] = append(parts[key], op)
		}
		return parts[:]
	}
	return m
}()
