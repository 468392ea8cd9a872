// Records what the resource managers of one Kubernetes release do with pods that have resources of their own.
//
// Scenarios come in as JSON lines, recordings go out as JSON lines, both in the format of tests/vectors/README.md. Nothing here
// decides anything: the topology, CPU and memory managers are those of k8s.io/kubernetes, wired in the kubelet's order.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
)

// Maps of Go come in another order each time, so a scenario is played often enough to see what hangs on that.
const runs = 12

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	flags := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var given scenario
		must(json.Unmarshal(lines.Bytes(), &given))
		result := record(given)
		told, err := json.Marshal(map[string]any{"scenario": json.RawMessage(lines.Bytes()), "result": result})
		must(err)
		fmt.Println(string(told))
	}
	must(lines.Err())
}

// record plays a scenario `runs` times and lists the paths that did not come out alike; a run that took another course ends what
// can be compared.
func record(given scenario) map[string]any {
	first := plain(play(given))
	unstable := map[string]bool{}
	comparable := len(first["events"].([]any))
	for run := 1; run < runs; run++ {
		other := plain(play(given))
		paths := []string{}
		differences("", first["start"], other["start"], "/start", &paths)
		mine, theirs := first["events"].([]any), other["events"].([]any)
		for index := range mine {
			if index >= comparable {
				break
			}
			if index >= len(theirs) || mine[index].(map[string]any)["startError"] != theirs[index].(map[string]any)["startError"] {
				comparable = index
				break
			}
			differences("", mine[index], theirs[index], "/events/"+strconv.Itoa(index), &paths)
		}
		for _, path := range paths {
			unstable[path] = true
		}
	}
	unordered(first, "", unstable)
	listed := []string{}
	for path := range unstable {
		listed = append(listed, path)
	}
	sort.Strings(listed)
	first["id"], first["runs"], first["compareEvents"], first["unstable"] = given.ID, runs, comparable, listed
	return first
}

func plain(value any) map[string]any {
	text, err := json.Marshal(value)
	must(err)
	var read map[string]any
	must(json.Unmarshal(text, &read))
	return read
}

// differences walks two results; a memory file whose content differs only in the order of lists is stable but for its wrapping.
func differences(name string, one, other any, path string, found *[]string) {
	if reflect.DeepEqual(one, other) {
		return
	}
	left, isMap := one.(map[string]any)
	right, areMaps := other.(map[string]any)
	if isMap && areMaps {
		for key := range left {
			differences(key, left[key], right[key], path+"/"+strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1"), found)
		}
		return
	}
	mine, isList := one.([]any)
	theirs, areLists := other.([]any)
	if isList && areLists && len(mine) == len(theirs) {
		for index := range mine {
			differences("", mine[index], theirs[index], path+"/"+strconv.Itoa(index), found)
		}
		return
	}
	if name == "memory_manager_state" && sameButForOrder(one, other) {
		*found = append(*found, path+"/data", path+"/dataChecksum")
		return
	}
	*found = append(*found, path)
}

// unordered adds the wrapping of memory files in which some container has several blocks: their order is chance, seen or not.
func unordered(value any, path string, unstable map[string]bool) {
	switch read := value.(type) {
	case []any:
		for index, item := range read {
			unordered(item, path+"/"+strconv.Itoa(index), unstable)
		}
	case map[string]any:
		for key, item := range read {
			if text, isText := item.(string); isText && key == "memory_manager_state" && hasSeveralBlocks(text) {
				unstable[path+"/"+key+"/data"], unstable[path+"/"+key+"/dataChecksum"] = true, true
			}
			unordered(item, path+"/"+key, unstable)
		}
	}
}

func hasSeveralBlocks(text string) bool {
	var file struct {
		Entries map[string]map[string][]any `json:"entries"`
	}
	must(json.Unmarshal([]byte(text), &file))
	for _, containers := range file.Entries {
		for _, blocks := range containers {
			if len(blocks) > 1 {
				return true
			}
		}
	}
	return false
}

func sameButForOrder(one, other any) bool {
	texts := [2]string{}
	for index, file := range []any{one, other} {
		text, isText := file.(string)
		if !isText {
			return false
		}
		var content map[string]any
		must(json.Unmarshal([]byte(text), &content))
		for _, key := range []string{"checksum", "data", "dataChecksum"} {
			delete(content, key)
		}
		texts[index] = canonical(content)
	}
	return texts[0] == texts[1]
}

func canonical(value any) string {
	switch read := value.(type) {
	case map[string]any:
		keys := []string{}
		for key := range read {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		for index, key := range keys {
			keys[index] = strconv.Quote(key) + ":" + canonical(read[key])
		}
		return "{" + strings.Join(keys, ",") + "}"
	case []any:
		items := []string{}
		for _, item := range read {
			items = append(items, canonical(item))
		}
		sort.Strings(items)
		return "[" + strings.Join(items, ",") + "]"
	}
	text, err := json.Marshal(value)
	must(err)
	return string(text)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
