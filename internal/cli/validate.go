package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api/schema"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE|-",
		Short: "Check a descriptor without a server",
		Args:  oneArg("FILE or -"),
		RunE: func(_ *cobra.Command, args []string) error {
			_, spec, _, err := a.readDescriptor(args[0])
			if err != nil {
				return err
			}
			instances := 0
			for _, name := range spec.ServiceNames() {
				instances += spec.Services[name].Replicas.Min
			}
			return a.printf("%s: valid: %s, %s", args[0], count(len(spec.Services), "service"),
				count(instances, "instance"))
		},
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of descriptors, for editors",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			schema, err := schema.JSON()
			if err != nil {
				return fmt.Errorf("make the schema: %w", err)
			}
			return a.printf("%s", strings.TrimRight(string(schema), "\n"))
		},
	}
}
