package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
)

// Devices of hosts. All who are behind a NAT have the same private addresses, as
// people at home do.
const (
	hostDevice = "eth0"
	wanDevice  = "wan0"
	lanDevice  = "lan0"
	natInside  = "192.168.7.1/24"
	natHost    = "192.168.7.2/24"
)

// makeHosts makes the namespaces of all hosts.
func (l *Lab) makeHosts() error {
	if err := l.makeNamespaces(switchHost, false); err != nil {
		return err
	}
	hosts := []string{"127.0.0.1 localhost", "::1 localhost"}
	for _, name := range l.file.names() {
		hosts = append(hosts, l.Address(name).String()+" "+name)
		if l.file.Hosts[name].NAT == "" {
			hosts = append(hosts, l.Address6(name).String()+" "+name)
		}
	}
	if err := os.WriteFile(l.dir+"/etc-hosts", []byte(strings.Join(hosts, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	for _, name := range l.file.names() {
		if err := os.Mkdir(l.Dir(name), 0o700); err != nil {
			return err
		}
		if err := l.makeNamespaces(name, true); err != nil {
			return fmt.Errorf("namespaces of %s: %w", name, err)
		}
		if kind := l.file.Hosts[name].NAT; kind != "" {
			if err := l.makeNAT(name, kind); err != nil {
				return fmt.Errorf("NAT of %s: %w", name, err)
			}
		}
	}
	return nil
}

// makeNamespaces makes a network with its loopback, and for a host a table of
// mounts, in which the lab's hosts have names.
func (l *Lab) makeNamespaces(host string, mounts bool) error {
	err := onthread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		if err := pin("net", l.namespace("net", host)); err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		return err
	})
	if err != nil || !mounts {
		return err
	}
	at, err := os.Create(l.namespace("mnt", host))
	if err != nil {
		return err
	}
	if err := at.Close(); err != nil {
		return err
	}
	err = l.makeMounts(host, -1)
	// A namespace of mounts can be kept by a file of an older one only, and newer
	// kernels tell the age by numbers that each processor gives out by itself.
	for cpu := 0; cpu < runtime.NumCPU() && errors.Is(err, unix.EINVAL); cpu++ {
		err = l.makeMounts(host, cpu)
	}
	return err
}

// makeMounts makes the table of mounts of a host, on a certain processor unless that
// is negative.
func (l *Lab) makeMounts(host string, cpu int) error {
	return onthread.Do(func() error {
		if cpu >= 0 {
			var one unix.CPUSet
			one.Set(cpu)
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				return fmt.Errorf("work on processor %d: %w", cpu, err)
			}
		}
		home, err := os.Open("/proc/thread-self/ns/mnt")
		if err != nil {
			return err
		}
		defer func() { _ = home.Close() }() // nothing is lost by it
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make a mount namespace: %w", err)
		}
		// What the machine mounts later is seen here, not the other way round.
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("keep mounts to the host: %w", err)
		}
		if err := unix.Mount(l.dir+"/etc-hosts", "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("names of hosts: %w", err)
		}
		made, err := os.Open("/proc/thread-self/ns/mnt")
		if err != nil {
			return err
		}
		defer func() { _ = made.Close() }() // nothing is lost by it
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("leave the mount namespace: %w", err)
		}
		from := fmt.Sprintf("/proc/self/fd/%d", made.Fd())
		if err := unix.Mount(from, l.namespace("mnt", host), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("keep the mount namespace: %w", err)
		}
		return nil
	})
}

// pin keeps a namespace of this thread at a file.
func pin(kind, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := unix.Mount("/proc/thread-self/ns/"+kind, file, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("keep the namespace: %w", err)
	}
	return nil
}

// makeNAT puts a namespace between a host and its link.
func (l *Lab) makeNAT(host, kind string) error {
	gate := host + natSuffix
	if err := l.makeNamespaces(gate, false); err != nil {
		return err
	}
	inside, err := os.Open(l.namespace("net", host))
	if err != nil {
		return err
	}
	defer func() { _ = inside.Close() }() // nothing is lost by it
	err = l.Do(gate, func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: lanDevice}, PeerName: hostDevice, PeerNamespace: netlink.NsFd(inside.Fd())}
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("make the private network: %w", err)
		}
		if err := address(lanDevice, natInside); err != nil {
			return err
		}
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
			return fmt.Errorf("forward packets: %w", err)
		}
		how := "masquerade"
		if kind == NATRandom {
			how = "masquerade random,fully-random"
		}
		return NFT(`table ip nat { chain post { type nat hook postrouting priority srcnat; oifname "` + wanDevice + `" ` + how + `; }; }
table ip filter { chain forward { type filter hook forward priority filter; iifname "` + wanDevice + `" ct state != { established, related } drop; }; }`)
	})
	if err != nil {
		return err
	}
	return l.Do(host, func() error {
		if err := address(hostDevice, natHost); err != nil {
			return err
		}
		gw, _, err := net.ParseCIDR(natInside)
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Gw: gw})
	})
}

// address gives a device of this thread's network an address.
func address(device, addr string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(addr)
	if err == nil {
		err = netlink.AddrAdd(link, a)
	}
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("address of %s: %w", device, err)
	}
	return nil
}

// NFT gives rules to the kernel, for the network of the calling thread: use it
// within Do.
func NFT(rules string) error {
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("the program nft is missing (on Debian: apt install nftables): %w", err)
	} else if err != nil {
		return fmt.Errorf("nft: %w: %s", err, out)
	}
	return nil
}

// Do calls f with a host's network and mounts. What f starts stays there; what f
// opens keeps that network. F runs on a thread of its own and must not hand work
// to other goroutines.
func (l *Lab) Do(host string, f func() error) error {
	return onthread.Do(func() error {
		if err := l.enter(host); err != nil {
			return err
		}
		return f()
	})
}

// Inside calls f, as Do, with the network of an instance that a worker has in the
// service network.
func (l *Lab) Inside(host, instance string, f func() error) error {
	return l.Do(host, func() error {
		at, err := os.Open(filepath.Join(l.Dir(host), "netns", instance))
		if err == nil {
			err = unix.Setns(int(at.Fd()), unix.CLONE_NEWNET)
			_ = at.Close() // nothing is lost by it
		}
		if err != nil {
			return fmt.Errorf("enter the network of %s at %s: %w", instance, host, err)
		}
		return f()
	})
}

// enter moves this thread into a host.
func (l *Lab) enter(host string) error {
	for _, ns := range []struct {
		kind string
		flag int
	}{{"net", unix.CLONE_NEWNET}, {"mnt", unix.CLONE_NEWNS}} {
		f, err := os.Open(l.namespace(ns.kind, host))
		if ns.kind == "mnt" && errors.Is(err, os.ErrNotExist) {
			continue // a NAT has the machine's mounts
		}
		if err != nil {
			return fmt.Errorf("the lab has no host %s: %w", host, err)
		}
		if ns.flag == unix.CLONE_NEWNS {
			// A thread that shares its working directory with others cannot enter.
			if err = unix.Unshare(unix.CLONE_FS); err != nil {
				err = fmt.Errorf("enter %s: %w", host, err)
			}
		}
		if err == nil {
			err = unix.Setns(int(f.Fd()), ns.flag)
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("enter the %s namespace of %s: %w", ns.kind, host, err)
		}
	}
	return nil
}

// Dial opens a connection from a host. The address must be numeric.
func (l *Lab) Dial(ctx context.Context, host, network, addr string) (c net.Conn, err error) {
	err = l.Do(host, func() (err error) {
		// One address: it is dialled on this thread.
		c, err = (&net.Dialer{}).DialContext(ctx, network, addr)
		return err
	})
	return c, err
}

// Listen opens a listener on a host.
func (l *Lab) Listen(host, network, addr string) (ln net.Listener, err error) {
	err = l.Do(host, func() (err error) {
		ln, err = net.Listen(network, addr)
		return err
	})
	return ln, err
}
