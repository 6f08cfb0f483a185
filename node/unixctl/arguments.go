package unixctl

import "strings"

// Option is the last value that a command line gives an option, as "--long=value", "--long value", "-s value" or
// "-svalue"; "" without.
func Option(arguments []string, long, short string) (value string) {
	for i, argument := range arguments {
		next := ""
		if i+1 < len(arguments) {
			next = arguments[i+1]
		}
		switch {
		case argument == long || argument == short:
			value = next
		case strings.HasPrefix(argument, long+"="):
			value = argument[len(long)+1:]
		case short != "" && strings.HasPrefix(argument, short) && !strings.HasPrefix(argument, "--"):
			value = argument[len(short):]
		}
	}
	return value
}
