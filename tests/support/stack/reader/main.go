// Prints a compose file or a Dockerfile as JSON, read by the libraries that Docker reads them with: compose-go and
// BuildKit's parser. What is wrong with the file ends it with code 1 and a sentence.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

const usage = "usage: reader compose COMPOSE_FILE ENV_FILE | reader dockerfile DOCKERFILE"

// Stage is a part of a Dockerfile that becomes an image.
type Stage struct {
	Name   string      `json:"name"`
	Base   string      `json:"base"`
	User   string      `json:"user"`
	Copies [][2]string `json:"copies"`
}

func main() {
	printed, err := read(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(printed))
}

func read(arguments []string) ([]byte, error) {
	switch {
	case len(arguments) == 3 && arguments[0] == "compose":
		return readCompose(arguments[1], arguments[2])
	case len(arguments) == 2 && arguments[0] == "dockerfile":
		return readDockerfile(arguments[1])
	}
	return nil, errors.New(usage)
}

// readCompose checks schema, variables, anchors, dependencies and ports as `docker compose` does. This process's
// environment is left out, so that the two files alone decide.
func readCompose(composeFile string, envFile string) ([]byte, error) {
	options, err := cli.NewProjectOptions([]string{composeFile}, cli.WithEnvFiles(envFile), cli.WithDotEnv,
		cli.WithProfiles([]string{"*"}))
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	return project.MarshalJSON()
}

func readDockerfile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	parsed, err := parser.Parse(file)
	if err != nil {
		return nil, err
	}
	found, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return nil, err
	}
	stages := []Stage{}
	for _, each := range found {
		stages = append(stages, stageOf(each))
	}
	return json.Marshal(stages)
}

func stageOf(found instructions.Stage) Stage {
	stage := Stage{Name: found.Name, Base: found.BaseName, Copies: [][2]string{}}
	for _, command := range found.Commands {
		switch each := command.(type) {
		case *instructions.CopyCommand:
			for _, source := range each.SourcePaths {
				stage.Copies = append(stage.Copies, [2]string{source, each.DestPath})
			}
		case *instructions.UserCommand:
			stage.User = each.User
		}
	}
	return stage
}
