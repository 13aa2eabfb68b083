// SPDX-License-Identifier: Apache-2.0
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/anishathalye/porcupine"
)

// read returns the history of a file: a line of JSON for each operation.
func read(path string) []porcupine.Operation {
	file, err := os.Open(path)
	if err != nil {
		fail("%v", err)
	}
	defer file.Close()
	var history []porcupine.Operation
	for decoder := json.NewDecoder(file); ; {
		var line struct {
			ClientId     int
			Input        operation
			Call, Return int64
			Output       string
		}
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			return history
		}
		if err != nil {
			fail("%s: %v", path, err)
		}
		history = append(history, porcupine.Operation{ClientId: line.ClientId, Input: line.Input,
			Call: line.Call, Output: line.Output, Return: line.Return})
	}
}

// checkFiles tells what each history is. One with many operations without a reply may be too much;
// it says nothing then, and whoever has recorded it decides what that means.
func checkFiles(paths []string) {
	linearizable := true
	for _, path := range paths {
		history := read(path)
		w := workload{name: strings.TrimSuffix(filepath.Base(path), ".jsonl"), model: modelByKey}
		for _, op := range history {
			if !op.Input.(operation).hasOneKey() {
				w.model = model
			}
		}
		result, info := porcupine.CheckOperationsVerbose(w.model, history, crashCheckTimeout)
		switch result {
		case porcupine.Ok:
			fmt.Printf("%s %d operations: linearizable\n", path, len(history))
		case porcupine.Unknown:
			fmt.Printf("%s %d operations: not decided in time\n", path, len(history))
		default:
			linearizable = false
			fmt.Printf("%s %d operations: NOT LINEARIZABLE, see %s\n", path, len(history),
				write(w, 0, history, info))
		}
	}
	if !linearizable {
		os.Exit(1)
	}
}
