// SPDX-License-Identifier: Apache-2.0
package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Other types in a state: "h,field=value" for a hash, "z,member=score" for a sorted set, "s,member=" for
// a set, all in order of names; "x,last id=,id=value" for a stream, in order of ids. Workloads give
// each key one type, so there is no WRONGTYPE.

// pair is a field, a member or an entry.
type pair struct{ name, value string }

func pairsOf(value string) []pair {
	var pairs []pair
	for _, item := range elements(value) {
		name, value, _ := strings.Cut(item, "=")
		pairs = append(pairs, pair{name, value})
	}
	return pairs
}

func (s *state) setPairs(key int, kind string, pairs []pair) {
	s[key] = ""
	for _, p := range pairs {
		s[key] += "," + p.name + "=" + p.value
	}
	if len(pairs) > 0 {
		s[key] = kind + s[key]
	}
}

// find returns where the name is, or where it would be.
func find(pairs []pair, name string) (int, bool) {
	at := sort.Search(len(pairs), func(i int) bool { return pairs[i].name >= name })
	return at, at < len(pairs) && pairs[at].name == name
}

// put sets the value of a name; true: it is new.
func (s *state) put(key int, kind, name, value string) bool {
	pairs := pairsOf(s[key])
	at, isThere := find(pairs, name)
	if isThere {
		pairs[at].value = value
	} else {
		pairs = append(pairs[:at:at], append([]pair{{name, value}}, pairs[at:]...)...)
	}
	s.setPairs(key, kind, pairs)
	return !isThere
}

func (s *state) take(key int, kind, name string) bool {
	pairs := pairsOf(s[key])
	at, isThere := find(pairs, name)
	if isThere {
		s.setPairs(key, kind, append(pairs[:at:at], pairs[at+1:]...))
	}
	return isThere
}

func (s *state) get(key int, name string) (string, bool) {
	pairs := pairsOf(s[key])
	if at, isThere := find(pairs, name); isThere {
		return pairs[at].value, true
	}
	return "", false
}

func truth(is bool) string {
	if is {
		return ":1"
	}
	return ":0"
}

// later compares ids "ms-seq".
func later(a, b string) bool {
	numbers := func(id string) (uint64, uint64) {
		ms, seq, _ := strings.Cut(id, "-")
		m, _ := strconv.ParseUint(ms, 10, 64)
		n, _ := strconv.ParseUint(seq, 10, 64)
		return m, n
	}
	aMs, aSeq := numbers(a)
	bMs, bSeq := numbers(b)
	return aMs > bMs || (aMs == bMs && aSeq > bSeq)
}

func entriesOf(log []pair) string {
	var items []string
	for _, entry := range log {
		items = append(items, array([]string{"$" + entry.name, array([]string{"$v", "$" + entry.value})}))
	}
	return array(items)
}

// applyToType is apply for commands of these types.
func (s *state) applyToType(op operation) string {
	args := op.Args[1:]
	at := func(i int) int { return keyIndex(args[i]) }
	switch op.name() {
	case "HINCRBY", "ZINCRBY": // key field by; key by member
		kind, name, by, mark := "h", args[1], args[len(args)-1], ":"
		if op.name() == "ZINCRBY" {
			kind, name, by, mark = "z", args[2], args[1], "$"
		}
		value, _ := s.get(at(0), name)
		n, _ := strconv.Atoi(value)
		m, _ := strconv.Atoi(by)
		s.put(at(0), kind, name, strconv.Itoa(n+m))
		return mark + strconv.Itoa(n+m)
	case "HGET", "ZSCORE":
		if value, isThere := s.get(at(0), args[1]); isThere {
			return "$" + value
		}
		return "nil"
	case "HDEL":
		return truth(s.take(at(0), "h", args[1]))
	case "ZREM":
		return truth(s.take(at(0), "z", args[1]))
	case "SADD":
		return truth(s.put(at(0), "s", args[1], ""))
	case "SREM":
		return truth(s.take(at(0), "s", args[1]))
	case "SISMEMBER":
		_, isThere := s.get(at(0), args[1])
		return truth(isThere)
	case "SCARD":
		return number(len(pairsOf(s[at(0)])))
	case "SMOVE":
		if !s.take(at(0), "s", args[2]) {
			return ":0"
		}
		s.put(at(1), "s", args[2], "")
		return ":1"
	case "SINTERCARD": // 2 key key
		n := 0
		for _, p := range pairsOf(s[at(1)]) {
			if _, isThere := s.get(at(2), p.name); isThere {
				n++
			}
		}
		return number(n)
	case "SUNIONSTORE": // key key key
		union := state{0: s[at(1)]}
		for _, p := range pairsOf(s[at(2)]) {
			union.put(0, "s", p.name, "")
		}
		s[at(0)] = union[0]
		return number(len(pairsOf(s[at(0)])))
	case "XADD": // key id v value
		log := pairsOf(s[at(0)])
		if len(log) == 0 {
			log = []pair{{"0-0", ""}}
		}
		if !later(args[1], log[0].name) {
			return "-ERR The ID specified in XADD is equal or smaller than the target stream top item"
		}
		log[0].name = args[1]
		s.setPairs(at(0), "x", append(log, pair{args[1], args[3]}))
		return "$" + args[1]
	case "XLEN":
		return number(max0(len(pairsOf(s[at(0)])) - 1))
	case "XRANGE": // all of it
		if s[at(0)] == "" {
			return "[]"
		}
		return entriesOf(pairsOf(s[at(0)])[1:])
	case "XTRIM": // key MAXLEN n
		log := pairsOf(s[at(0)])
		most, _ := strconv.Atoi(args[2])
		cut := max0(len(log) - 1 - most)
		if cut > 0 {
			s.setPairs(at(0), "x", append(log[:1:1], log[1+cut:]...))
		}
		return number(cut)
	case "XREAD": // STREAMS key key 0 0
		var items []string
		for i := 1; i <= (len(args)-1)/2; i++ {
			if log := pairsOf(s[at(i)]); len(log) > 1 {
				items = append(items, array([]string{"$" + args[i], entriesOf(log[1:])}))
			}
		}
		if items == nil {
			return "nil"
		}
		return array(items)
	}
	panic("the specification does not know " + op.name())
}

func max0(n int) int {
	if n < 0 {
		return 0
	}
	return n
}

// modelOfLogs: the server chooses ids for XADD *, which have to be larger than all before in the stream.
var modelOfLogs = porcupine.Model{
	Init: model.Init,
	Step: func(before, input, output interface{}) (bool, interface{}) {
		op, reply := input.(operation), output.(string)
		told := strings.Fields(strings.Trim(reply, "[]"))
		choose := func(op operation, i int) operation {
			if op.name() == "XADD" && i < len(told) {
				op.Args = append([]string{}, op.Args...)
				op.Args[2] = strings.TrimPrefix(told[i], "$")
			}
			return op
		}
		if op.name() == "EXEC" { // of XADDs only
			body := make([]operation, len(op.Body))
			for i := range op.Body {
				body[i] = choose(op.Body[i], i)
			}
			op.Body = body
		}
		s := before.(state)
		return s.apply(choose(op, 0)) == reply, s
	},
	DescribeOperation: model.DescribeOperation,
	DescribeState:     func(s interface{}) string { return fmt.Sprintf("%q", s.(state)) },
}
