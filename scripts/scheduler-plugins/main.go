// kube-scheduler with one plugin more: NodeResourceTopologyMatch of sigs.k8s.io/scheduler-plugins.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	// Its arguments are read by this scheme.
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"
)

func main() {
	plugin := app.WithPlugin(noderesourcetopology.Name, noderesourcetopology.New)
	os.Exit(cli.Run(app.NewSchedulerCommand(plugin)))
}
