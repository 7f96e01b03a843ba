package dashboards

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// compose is what we read of docker-compose.yml. `docker compose config` says
// whether it is valid; these tests say whether it fits the rest of the tree.
type compose struct {
	Services map[string]service   `yaml:"services"`
	Volumes  map[string]yaml.Node `yaml:"volumes"`
}

type service struct {
	Image     string               `yaml:"image"`
	Env       map[string]string    `yaml:"environment"`
	Volumes   []string             `yaml:"volumes"`
	Ports     []string             `yaml:"ports"`
	Profiles  []string             `yaml:"profiles"`
	DependsOn map[string]yaml.Node `yaml:"depends_on"`
}

func TestComposeFitsTheTree(t *testing.T) {
	t.Parallel()
	var file compose
	load(t, "../docker-compose.yml", &file)
	for _, fault := range composeFaults(&file) {
		t.Error(fault)
	}
	for _, name := range []string{"postgres", "migrate", "weir", "sim", "prometheus", "grafana"} {
		if _, ok := file.Services[name]; !ok {
			t.Errorf("no service %s", name)
		}
	}
	for name, s := range file.Services {
		if behind := len(s.Profiles) > 0; behind != (name == "sim") {
			t.Errorf("service %s: behind a profile is %t; the simulator alone is", name, behind)
		}
	}
}

// TestComposeSetsWhatWeirReads fails on a variable that no command has a flag
// for: set in vain, it would leave the default in force without a word.
func TestComposeSetsWhatWeirReads(t *testing.T) {
	t.Parallel()
	var file compose
	load(t, "../docker-compose.yml", &file)
	flags := flagsOf(t, "../cmd/weir/*.go")
	if len(flags) == 0 {
		t.Fatal("found no flag with a variable: the pattern no longer fits the code")
	}
	for name, s := range file.Services {
		for key := range s.Env {
			if strings.HasPrefix(key, "WEIR_") && !flags[key] {
				t.Errorf("service %s sets %s, which weir does not read", name, key)
			}
		}
	}
}

var envTag = regexp.MustCompile(`env:"(WEIR_[A-Z_]+)`)

// flagsOf returns the variables that the flags in the files of pattern take.
func flagsOf(t *testing.T, pattern string) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]bool{}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range envTag.FindAllSubmatch(src, -1) {
			flags[string(tag[1])] = true
		}
	}
	return flags
}

// TestComposeFaultsAreFound is the negative of composeFaults.
func TestComposeFaultsAreFound(t *testing.T) {
	t.Parallel()
	for yml, want := range map[string]string{
		"{image: postgres}":                          "tag",
		"{image: 'postgres:latest'}":                 "tag",
		"{image: 'registry:5000/postgres'}":          "tag",
		"{image: 'a:1', volumes: ['./no/such:/x']}":  "no/such",
		"{image: 'a:1', volumes: ['nameless:/x']}":   "nameless",
		"{image: 'a:1', depends_on: {nobody: {}}}":   "nobody",
		"{image: 'a:1', ports: ['8080:8080']}":       "loopback",
		"{image: 'a:1', ports: ['0.0.0.0:80:8080']}": "loopback",
	} {
		var s service
		if err := yaml.Unmarshal([]byte(yml), &s); err != nil {
			t.Fatal(err)
		}
		got := composeFaults(&compose{Services: map[string]service{"s": s}})
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: faults %q, want one about %q", yml, got, want)
		}
	}
}

func composeFaults(c *compose) (faults []string) {
	fault := func(name, what string) { faults = append(faults, fmt.Sprintf("service %s: %s", name, what)) }
	for name, s := range c.Services {
		if !pinned(s.Image) {
			fault(name, "image "+s.Image+" has no tag, or one that moves")
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if _, named := c.Volumes[source]; !named && !exists(filepath.Join("..", source)) {
				fault(name, "mounts "+source+", which is neither a file of the tree nor a volume")
			}
		}
		for other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				fault(name, "depends on "+other+", which is no service")
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				fault(name, "publishes "+p+" beyond the loopback interface")
			}
		}
	}
	return faults
}

// pinned reports whether image carries a tag that names a version.
func pinned(image string) bool {
	_, tag, ok := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return ok && tag != "latest"
}

var from = regexp.MustCompile(`(?m)^(?:FROM(?: --\S+)*|COPY --from=)\s*(\S+)`)

func TestDockerfileImagesArePinned(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	images := from.FindAllSubmatch(src, -1)
	if len(images) < 2 {
		t.Fatalf("found %d images: the pattern no longer fits the file", len(images))
	}
	for _, m := range images {
		if image := string(m[1]); image != "build" && !pinned(image) {
			t.Errorf("Dockerfile: image %s has no tag, or one that moves", image)
		}
	}
}

// TestGrafanaFindsItsFiles follows each path and address from Grafana's
// provisioning through the mounts of docker-compose.yml to the file it means.
func TestGrafanaFindsItsFiles(t *testing.T) {
	t.Parallel()
	var file compose
	load(t, "../docker-compose.yml", &file)
	mounts := file.Services["grafana"].Volumes
	var dashboards struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	load(t, onHost(t, mounts, "/etc/grafana/provisioning/dashboards/weir.yml"), &dashboards)
	if len(dashboards.Providers) != 1 || dashboards.Providers[0].Type != "file" {
		t.Fatalf("providers = %+v, want one of files", dashboards.Providers)
	}
	if path := onHost(t, mounts, dashboards.Providers[0].Options.Path); !exists(filepath.Join(path, "weir.json")) {
		t.Errorf("no weir.json in %s", path)
	}
	var sources struct {
		Datasources []struct{ UID, Type, URL string }
	}
	load(t, onHost(t, mounts, "/etc/grafana/provisioning/datasources/prometheus.yml"), &sources)
	if len(sources.Datasources) != 1 || sources.Datasources[0].UID != "weir-prometheus" {
		t.Fatalf("data sources = %+v, want the one with uid weir-prometheus", sources.Datasources)
	}
	u, err := url.Parse(sources.Datasources[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	listens(t, &file, u.Hostname(), u.Port())
}

func TestPrometheusFindsWeir(t *testing.T) {
	t.Parallel()
	var file compose
	load(t, "../docker-compose.yml", &file)
	var config struct {
		ScrapeConfigs []struct {
			JobName string `yaml:"job_name"`
			DNS     []struct {
				Names []string
				Port  string
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	load(t, onHost(t, file.Services["prometheus"].Volumes, "/etc/prometheus/prometheus.yml"), &config)
	for _, job := range config.ScrapeConfigs {
		if job.JobName == "weir" {
			listens(t, &file, job.DNS[0].Names[0], job.DNS[0].Port)
			return
		}
	}
	t.Error("no job weir")
}

// listens fails the test unless service publishes port, which the tree's other
// files rely on.
func listens(t *testing.T, c *compose, name, port string) {
	t.Helper()
	if !slices.ContainsFunc(c.Services[name].Ports, func(p string) bool { return strings.HasSuffix(p, ":"+port) }) {
		t.Errorf("nothing listens on %s:%s", name, port)
	}
}

// onHost maps a path in a container through its mounts to one of the tree.
func onHost(t *testing.T, mounts []string, path string) string {
	t.Helper()
	for _, m := range mounts {
		source, target, _ := strings.Cut(strings.TrimSuffix(m, ":ro"), ":")
		if rest, ok := strings.CutPrefix(path, target); ok && strings.HasPrefix(source, "./") {
			return filepath.Join("..", source, rest)
		}
	}
	t.Fatalf("%s is in no mount of %q", path, mounts)
	return ""
}

func load(t *testing.T, path string, into any) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(src, into); err != nil {
		t.Fatalf("parse %s: %v", path, err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
