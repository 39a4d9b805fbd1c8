package smf

import (
	"bufio"
	"encoding/json"
	"io"
)

// Serve answers commands, a JSON object a line, with what run makes of them, or with {"error":"..."}. It ends with its
// input, or when an answer cannot be written.
func Serve[C any](in io.Reader, out io.Writer, run func(C) (any, error)) error {
	lines := bufio.NewScanner(in)
	answers := json.NewEncoder(out)
	for lines.Scan() {
		var c C
		var answer any
		err := json.Unmarshal(lines.Bytes(), &c)
		if err == nil {
			answer, err = run(c)
		}
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}
