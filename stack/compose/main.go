// Prints a compose file as JSON, read by the library that `docker compose` reads it with: schema, variables, anchors,
// dependencies and ports are checked as there, and what is wrong ends it with code 1 and one sentence.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: compose COMPOSE_FILE ENV_FILE")
		os.Exit(2)
	}
	project, err := load(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	printed, err := project.MarshalJSON()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(printed))
}

// load leaves this process's environment out, so that the two files alone decide.
func load(composeFile string, envFile string) (*types.Project, error) {
	options, err := cli.NewProjectOptions([]string{composeFile}, cli.WithEnvFiles(envFile), cli.WithDotEnv,
		cli.WithProfiles([]string{"*"}))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}
