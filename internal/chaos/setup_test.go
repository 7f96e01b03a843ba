//go:build !race

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func (f *fleet) numbers(ctx context.Context) error {
	for _, id := range numberIDs {
		_, err := f.weir(ctx, "number", "add", id, "--waba", "waba", "--limit", fmt.Sprint(numberLimit),
			"--headroom", fmt.Sprint(headroom), "--no-verify")
		if err != nil {
			return err
		}
		f.run.Numbers = append(f.run.Numbers, Number{ID: id, Rate: numberLimit * (1 - headroom), Burst: 1, Limit: numberLimit})
	}
	return nil
}

// campaigns makes one of each policy, and one for an operator to cancel; all
// numbers send all of them.
func (f *fleet) campaigns(ctx context.Context) error {
	for i, policy := range []string{"fail", "resend"} {
		if err := f.campaign(ctx, policy, f.fault.people/2, 10_000_000*(i+1), "--on-unknown", policy); err != nil {
			return err
		}
	}
	if !f.fault.operated {
		return nil
	}
	return f.campaign(ctx, givenUp, f.fault.people/2, 40_000_000)
}

// givenUp is the campaign that an operator cancels.
const givenUp = "given-up"

// campaign imports people, whose phones count from first on, and two rows that
// are none.
func (f *fleet) campaign(ctx context.Context, name string, people, first int, args ...string) error {
	file := filepath.Join(f.dir, name+".csv")
	var b strings.Builder
	b.WriteString("phone,first_name\n")
	for i := range people {
		fmt.Fprintf(&b, "+49151%08d,Ana\n", first+i)
	}
	fmt.Fprintf(&b, "none,Ana\n+49151%08d,Ana\n", first)
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return fmt.Errorf("write an audience: %w", err)
	}
	id, err := f.weir(ctx, append([]string{
		"campaign", "create", name, "--template", "hello", "--language", "en_US", "--number", strings.Join(numberIDs, ","),
		"--csv", file, "--param", "body.1=first_name", "--no-verify", "--window", "none",
	}, args...)...)
	if err != nil {
		return err
	}
	f.ids[name], err = strconv.ParseInt(strings.TrimSpace(id), 10, 64)
	return err
}

func (f *fleet) nodes(ctx context.Context) error {
	for i := range f.fault.nodes {
		p, err := f.place(i)
		if err != nil {
			return err
		}
		f.places = append(f.places, p)
		if err := f.start(p); err != nil {
			return err
		}
	}
	for _, p := range f.places {
		if err := f.ready(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// begin starts every campaign. A machine that is too busy for the order, which
// may not stand still for five seconds, is given it again: twice is once.
func (f *fleet) begin(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(f.ids)) {
		var last error
		err := until(ctx, "campaign "+name+" is started", func() (bool, error) {
			_, last = f.weir(ctx, "campaign", "start", name, "--no-verify")
			return last == nil, nil
		})
		if err != nil {
			return errors.Join(err, last)
		}
	}
	return nil
}

// weir runs one command to its end, as an operator whom nothing cuts off, and
// returns what it printed.
func (f *fleet) weir(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, shop.weir, args...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "WEIR_DATABASE_URL="+f.url(f.own),
		"WEIR_GRAPH_URL=http://"+f.platform.addr, "WEIR_ACCESS_TOKEN=operator", "WEIR_DATA_DIR="+f.dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("weir %s: %w: %s", strings.Join(args[:min(len(args), 3)], " "), err, stderr.String())
	}
	return string(out), nil
}
