package lab

import (
	"fmt"
	"strconv"

	"github.com/verge-edge/verge/internal/lab/emul"
)

// Status of a lab.
type Status struct {
	Name      string       `json:"name"`
	Emulation string       `json:"emulation"`
	RealTime  bool         `json:"real_time"`
	LateP50   float64      `json:"late_p50_ms"`
	LateP99   float64      `json:"late_p99_ms"`
	Packets   uint64       `json:"packets"`
	Stray     uint64       `json:"stray_packets"`
	Hosts     []HostStatus `json:"hosts"`
	Links     []LinkStatus `json:"links"`
}

// HostStatus of one host.
type HostStatus struct {
	Name      string `json:"name"`
	Role      string `json:"role"`
	Address   string `json:"address"`
	Address6  string `json:"address6,omitempty"`
	NAT       string `json:"nat,omitempty"`
	Processes int    `json:"processes"`
	Log       string `json:"log,omitempty"`
}

// LinkStatus of one direction of a link.
type LinkStatus struct {
	From  string     `json:"from"`
	To    string     `json:"to"`
	Link  string     `json:"link"`
	Count emul.Count `json:"count"`
}

// Status of now.
func (l *Lab) Status() (Status, error) {
	st, err := l.Stats()
	if err != nil {
		return Status{}, err
	}
	out := Status{
		Name: l.Name(), Emulation: Emulation, RealTime: st.RealTime, Packets: st.Late.Count, Stray: st.Stray,
		LateP50: Milliseconds(st.Late.Percentile(0.5)), LateP99: Milliseconds(st.Late.Percentile(0.99)),
	}
	names := l.file.names()
	for _, name := range names {
		h := l.file.Hosts[name]
		s := HostStatus{Name: name, Role: h.Role, Address: l.Address(name).String(), NAT: h.NAT}
		if h.NAT == "" {
			s.Address6 = l.Address6(name).String()
		}
		if h.Role != "" && h.Role != RoleNone {
			s.Log = l.Log(name)
		}
		pids, err := l.Processes(name)
		if err != nil {
			return Status{}, err
		}
		s.Processes = len(pids)
		out.Hosts = append(out.Hosts, s)
	}
	for _, x := range st.Links {
		out.Links = append(out.Links, LinkStatus{names[x.From], names[x.To], Describe(x.Link), x.Count})
	}
	return out, nil
}

// Table for people: hosts, then links that saw a packet.
func (s Status) Table() (head []string, rows [][]string) {
	head = []string{"HOST", "ROLE", "ADDRESS", "NAT", "PROCESSES", "TO", "LINK", "SENT", "LOST", "CUT", "DROPPED"}
	for _, h := range s.Hosts {
		rows = append(rows, []string{h.Name, h.Role, h.Address, h.NAT, strconv.Itoa(h.Processes), "", "", "", "", "", ""})
		for _, l := range s.Links {
			if l.From == h.Name && l.Count.Sent > 0 {
				n := func(v uint64) string { return strconv.FormatUint(v, 10) }
				rows = append(rows, []string{"", "", "", "", "", l.To, l.Link, n(l.Count.Sent), n(l.Count.Lost), n(l.Count.Cut), n(l.Count.Dropped)})
			}
		}
	}
	return head, rows
}

// Note for people, beside the table.
func (s Status) Note() string {
	rt := "with real-time priority"
	if !s.RealTime {
		rt = "without real-time priority"
	}
	return fmt.Sprintf("links are emulated by %s, %s; %d packets left it late by p50 %.3f ms, p99 %.3f ms", s.Emulation, rt, s.Packets, s.LateP50, s.LateP99)
}
