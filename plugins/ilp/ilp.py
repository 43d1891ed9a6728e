#!/usr/bin/env python3
"""A scheduler plugin that solves an integer program with HiGHS.

It has the two models of Mu (SoCC '21, equation 6). With w[f][n] the pods of
function f on node n, both keep within the capacity of every node and place at
most as many pods of a function as are asked for.

  ilp0  maximises the number of pods.
  ilp1  maximises the sum over f and n of (1/D[f]) * (1 + 1/2 + ... + 1/w[f][n]),
        D[f] being the dominant share of all pods of f: efficient, and fair.

As a plugin (docs/plugins.md has the contract; register it with --plugin-joint, so
that it weighs services against each other):

  ilp.py --listen 127.0.0.1:9101 --token-file FILE --objective ilp1

or over the bus of a cluster, with an identity of verge plugin join --dir DIR:

  ilp.py --nats DIR --objective ilp1

For a file of cases, for experiments:

  ilp.py --solve cases.json --objective ilp0 > answers.json

A case is {"nodes": [{"cpu": 8, "memory": 100}, ...],
           "functions": [{"pods": 3, "demand": {"cpu": 1, "memory": 10}}, ...]}.
Its answer has "placed", a list of [function, node, pods], "pods" and "objective"
of it, "bound" (no placement has more), "gap" between the two, "optimal", and
"seconds" and "cpu_seconds" that it took.
"""

import argparse
import asyncio
import base64
import heapq
import hmac
import json
import math
import os
import signal
import socketserver
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import highspy
import numpy as np

OBJECTIVES = ("ilp0", "ilp1")
MAX_QUESTION = 4 << 20  # bytes, as in the contract
MAX_COLUMNS = 2_000_000  # of a model; what is larger is refused instead of solved


class TooLarge(Exception):
    pass


class Function:
    """pods of one kind that wait for a node.

    has is how many of them run on each node already, by its index; nodes are the
    indexes of those that may take one, None for all.
    """

    def __init__(self, pods, demand, has=None, nodes=None):
        self.pods, self.demand, self.has, self.nodes = pods, demand, has or {}, nodes


def dominant(function, capacity):
    """The largest share of any resource that all pods of a function would have."""
    pods = function.pods + sum(function.has.values())
    shares = [d * pods / capacity[j] for j, d in function.demand.items() if d > 0 and capacity.get(j, 0) > 0]
    return max(shares, default=0.0)


def fitting(function, free):
    """How many pods a node with so much free can take."""
    n = function.pods
    for j, d in function.demand.items():
        if d > 0:
            n = min(n, int(max(0, free.get(j, 0)) // d))
    return n


def greedy(free, functions, weights, objective, capacity):
    """A placement to begin with, so that there is one however short the time is.

    The next pod is that with the most reward for its dominant share, on the node
    with the fewest of its function, of those the one with the most left.
    """
    left, out, heap = [dict(n) for n in free], {}, []
    size = [max([d / capacity[j] for j, d in f.demand.items() if d > 0 and capacity.get(j, 0) > 0], default=0) or 1e-12 for f in functions]

    def room(n, demand):
        least = 1.0
        for j, d in demand.items():
            if d > 0:
                if left[n].get(j, 0) < d:
                    return -1.0
                least = min(least, (left[n][j] - d) / free[n][j])
        return least

    def offer(f):
        best = None
        for n in functions[f].nodes if functions[f].nodes is not None else range(len(free)):
            share = room(n, functions[f].demand)
            if share >= 0:
                used = out.get((f, n), 0) + functions[f].has.get(n, 0) if objective == "ilp1" else 0
                best = min(best or (used, -share, n), (used, -share, n))
        if best:
            reward = weights[f] / (best[0] + 1) if objective == "ilp1" else 1.0
            heapq.heappush(heap, (-reward / size[f], f, best[2]))

    rest = [f.pods for f in functions]
    for f in range(len(functions)):
        if rest[f] > 0:
            offer(f)
    while heap:
        _, f, n = heapq.heappop(heap)
        if room(n, functions[f].demand) >= 0:  # else others took it meanwhile
            for j, d in functions[f].demand.items():
                left[n][j] = left[n].get(j, 0) - d
            out[f, n] = out.get((f, n), 0) + 1
            rest[f] -= 1
        if rest[f] > 0:
            offer(f)
    return out


def value(placed, functions, weights, objective):
    if objective == "ilp0":
        return float(sum(placed.values()))
    total = 0.0
    for (f, n), w in placed.items():
        has = functions[f].has.get(n, 0)
        total += weights[f] * sum(1.0 / i for i in range(has + 1, has + w + 1))
    return total


def solve(free, capacity, functions, objective, time_limit, gap, per_node=0):
    """Places pods on nodes with so much free.

    capacity is that of all nodes together, for dominant shares. Returns the pods by
    (function, node), the bound of the objective, and whether the optimum was proven
    (as near as gap). With per_node a node gets at most so many pods of a function,
    and the bound is that of this smaller model.
    """
    begun = time.monotonic()
    weights = []
    for f in functions:
        share = dominant(f, capacity)
        weights.append(1.0 if objective == "ilp0" or share <= 0 else 1.0 / share)
    # One column for the pods of a function on a node. For ilp1 its reward falls with
    # each, so there is one for each pod, which is taken or not: the earlier ones are
    # worth more, so they are taken first.
    at, pod, cost, upper = [], [], [], []
    for f, function in enumerate(functions):
        for n in function.nodes if function.nodes is not None else range(len(free)):
            most = fitting(function, free[n])
            if per_node:
                most = min(most, per_node)
            if most == 0:
                continue
            if len(at) + most > MAX_COLUMNS:
                raise TooLarge("the model has more than %d columns" % MAX_COLUMNS)
            if objective == "ilp0":
                at.append((f, n)), pod.append(0), cost.append(1.0), upper.append(most)
                continue
            has = function.has.get(n, 0)
            for i in range(1, most + 1):
                at.append((f, n)), pod.append(i), cost.append(weights[f] / (has + i)), upper.append(1)
    if not at:
        return {}, 0.0, True
    resources = sorted({j for f in functions for j, d in f.demand.items() if d > 0})
    # Rows: the resources of each node, in shares of what is free there so that the
    # numbers are of one size, then the pods of each function.
    rows = len(free) * len(resources) + len(functions)
    index, values, start = [], [], [0]
    for (f, n) in at:
        for k, j in enumerate(resources):
            d = functions[f].demand.get(j, 0)
            if d > 0:
                index.append(n * len(resources) + k)
                values.append(d / free[n][j])
        index.append(len(free) * len(resources) + f)
        values.append(1.0)
        start.append(len(index))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(at), rows
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = np.array(cost)
    lp.col_lower_, lp.col_upper_ = np.zeros(len(at)), np.array(upper, dtype=float)
    lp.row_lower_ = np.full(rows, -highspy.kHighsInf)
    lp.row_upper_ = np.array([1.0] * (len(free) * len(resources)) + [float(f.pods) for f in functions])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.array(start)
    lp.a_matrix_.index_ = np.array(index)
    lp.a_matrix_.value_ = np.array(values)
    lp.integrality_ = [highspy.HighsVarType.kInteger] * len(at)
    h = highspy.Highs()
    h.setOptionValue("output_flag", False)
    h.setOptionValue("threads", 1)
    h.setOptionValue("random_seed", 1)
    h.setOptionValue("mip_rel_gap", gap)
    h.passModel(lp)
    begin = greedy(free, functions, weights, objective, capacity)
    first = highspy.HighsSolution()
    first.col_value = [float(begin.get(k, 0) if not i else i <= begin.get(k, 0)) for k, i in zip(at, pod)]
    h.setSolution(first)
    h.setOptionValue("time_limit", max(0.01, time_limit - (time.monotonic() - begun)))
    h.run()
    status, info = h.getModelStatus(), h.getInfo()
    found = begin
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        found = {}
        for k, x in zip(at, h.getSolution().col_value):
            if round(x) > 0:
                found[k] = found.get(k, 0) + round(x)
        found = within(found, free, functions)
        if value(begin, functions, weights, objective) > value(found, functions, weights, objective):
            found = begin
    bound = info.mip_dual_bound
    if not math.isfinite(bound):
        bound = sum(cost) if objective == "ilp1" else float(sum(f.pods for f in functions))
    return found, bound, status == highspy.HighsModelStatus.kOptimal


def within(placed, free, functions):
    """placed without what the tolerance of the solver let through."""
    left, rest, out = [dict(n) for n in free], [f.pods for f in functions], {}
    for (f, n), w in sorted(placed.items()):
        for _ in range(w):
            demand = functions[f].demand
            if rest[f] > 0 and all(left[n].get(j, 0) >= d for j, d in demand.items() if d > 0):
                for j, d in demand.items():
                    left[n][j] = left[n].get(j, 0) - d
                rest[f] -= 1
                out[f, n] = out.get((f, n), 0) + 1
    return out


def total(nodes):
    out = {}
    for n in nodes:
        for j, c in n.items():
            out[j] = out.get(j, 0) + c
    return out


def solve_case(case, args):
    objective = args.objective
    nodes = case["nodes"]
    functions = [Function(f["pods"], f["demand"]) for f in case["functions"]]
    begin, cpu = time.perf_counter(), time.process_time()
    placed, bound, optimal = solve(nodes, total(nodes), functions, objective, args.time_limit, args.gap, args.per_node)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    capacity = total(nodes)
    weights = [1.0 / (dominant(f, capacity) or 1.0) for f in functions]
    got = value(placed, functions, weights, objective)
    return {
        "placed": [[f, n, w] for (f, n), w in sorted(placed.items())], "pods": sum(placed.values()), "objective": got,
        "bound": bound, "gap": abs(bound - got) / max(abs(got), 1e-9), "optimal": optimal,
        "seconds": round(seconds, 4), "cpu_seconds": round(cpu, 4),
    }


def answer(question, args):
    """The answer to a question of the contract, of one service or of several."""
    begin = time.monotonic()
    if question.get("v") != 1:
        raise ValueError("this plugin speaks version 1 of the contract")
    candidates = question["candidates"]
    index = {c["id"]: n for n, c in enumerate(candidates)}
    joint = "services" in question
    services = question["services"] if joint else [question["service"]]
    functions = []
    for s in services:
        ids = s.get("candidates") if joint else None
        functions.append(Function(
            len(s["instances"]), s["demand"],
            {n: c["same"][s["name"]] for n, c in enumerate(candidates) if c.get("same", {}).get(s["name"])},
            [index[i] for i in ids] if ids is not None else None))
    # A part of the time is for building the model and for the way back.
    patience = question["deadline_ms"] / 1000 * 0.6 - (time.monotonic() - begin)
    placed, _, _ = solve([c["free"] for c in candidates], total(c["capacity"] for c in candidates), functions, args.objective, patience, args.gap, args.per_node)
    verdicts = {}
    for f, s in enumerate(services):
        spots = [n for (g, n), w in sorted(placed.items()) if g == f for _ in range(w)]
        verdict = {"placements": {i: candidates[n]["id"] for i, n in zip(s["instances"], spots)}}
        if len(spots) < len(s["instances"]):
            verdict["reason"] = "%s places %d of %d" % (args.objective, len(spots), len(s["instances"]))
        verdicts[s["name"]] = verdict
    return {"v": 1, "services": verdicts} if joint else {"v": 1, **verdicts[services[0]["name"]]}


def reply_to(data, args):
    """The answer to the bytes of a question, as bytes; of one that is none, why."""
    begin = time.monotonic()
    try:
        question = json.loads(data)
        with solving:
            question["deadline_ms"] -= (time.monotonic() - begin) * 1000
            result = answer(question, args)
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        result = {"error": "this is no question of the contract: %s: %s" % (type(e).__name__, e)}
    except TooLarge as e:
        result = {"error": str(e)}
    return json.dumps(result, allow_nan=False).encode()


def credentials(path):
    """The token in a file with credentials of NATS, and what signs a nonce with its key."""
    import nacl.signing

    with open(path) as f:
        lines = [line.strip() for line in f]
    after = {kind: lines[n + 1] for n, line in enumerate(lines) for kind in ("JWT", "SEED") if "BEGIN" in line and kind in line}
    # Two bytes that say what it is, the key, a checksum.
    seed = base64.b32decode(after["SEED"] + "=" * (-len(after["SEED"]) % 8))[2:34]
    key = nacl.signing.SigningKey(seed)
    return after["JWT"].encode(), lambda nonce: base64.b64encode(key.sign(nonce.encode()).signature)


async def serve_nats(args):
    """Answers on the bus of the cluster whose identity is in a folder."""
    import nats  # only here: who listens needs no NATS

    with open(os.path.join(args.nats, "nats.json")) as f:
        identity = json.load(f)
    context = ssl.create_default_context(cafile=identity["ca"])
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(identity["cert"], identity["key"])

    token, sign = credentials(identity["credentials"])

    ended, asked_to = asyncio.Event(), []

    async def said(e):
        print("bus: %s" % e, file=sys.stderr, flush=True)

    async def closed():
        ended.set()

    def end():
        asked_to.append(True)
        ended.set()

    bus = await nats.connect(
        identity["servers"], name="plugin " + identity["plugin"], user_jwt_cb=lambda: token, signature_cb=sign,
        tls=context, tls_hostname=identity["tls_name"], tls_handshake_first=True,
        max_reconnect_attempts=-1, reconnect_time_wait=2, error_cb=said, closed_cb=closed)

    async def asked(message):
        await message.respond(await asyncio.to_thread(reply_to, message.data, args))

    await bus.subscribe(identity["subject"], queue=identity["queue"], cb=asked)
    await bus.flush()
    print("connected to cluster %s as plugin %s, %s" % (identity["cluster"], identity["plugin"], args.objective), file=sys.stderr, flush=True)
    for s in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(s, end)
    await ended.wait()
    await bus.close()
    if not asked_to:
        sys.exit("the cluster does not let this plugin in any more: join again (verge plugin join)")


# One model at a time: two would only slow each other down.
solving = threading.Lock()


def serve(args):
    token = ""
    if args.token_file:
        with open(args.token_file) as f:
            token = f.read().strip()
        if not token:
            sys.exit("%s holds no token" % args.token_file)
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_POST(self):
            given = self.headers.get("Authorization", "")
            if token and not hmac.compare_digest(given.encode(), ("Bearer " + token).encode()):
                self.close_connection = True
                return self.reply(401, {"error": "the token is not the right one"})
            try:
                size = int(self.headers["Content-Length"])
            except (TypeError, ValueError):
                size = -1
            if not 0 <= size <= MAX_QUESTION:
                self.close_connection = True
                return self.reply(413, {"error": "a question has a Content-Length of at most %d bytes" % MAX_QUESTION})
            begin = time.monotonic()
            try:
                question = json.loads(self.rfile.read(size))
                with solving:
                    question["deadline_ms"] -= (time.monotonic() - begin) * 1000
                    result = answer(question, args)
            except (ValueError, KeyError, TypeError, AttributeError) as e:
                return self.reply(400, {"error": "this is no question of the contract: %s: %s" % (type(e).__name__, e)})
            except TooLarge as e:
                return self.reply(413, {"error": str(e)})
            self.reply(200, result)

        def reply(self, status, body):
            data = json.dumps(body, allow_nan=False).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def address_string(self):  # of a unix socket there is none
            return str(self.client_address[0]) if self.client_address else "unix"

        def log_message(self, form, *values):
            if args.verbose:
                sys.stderr.write(form % values + "\n")

    if args.listen.startswith("unix:"):
        path = args.listen[len("unix:"):]
        if os.path.exists(path):
            os.remove(path)

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

        old = os.umask(0o077)  # the socket is this user's alone
        server = Server(path, Handler)
        os.umask(old)
    else:
        host, _, port = args.listen.rpartition(":")
        if host not in ("127.0.0.1", "localhost") and not args.token_file:
            sys.exit("--listen %s can be reached from elsewhere: give it a --token-file, and TLS in front" % args.listen)
        server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
        server.daemon_threads = True
    print("listening on %s, %s" % (args.listen, args.objective), file=sys.stderr, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


def main():
    p = argparse.ArgumentParser(description="Verge's scheduler plugin with an integer program, solved by HiGHS.")
    p.add_argument("--listen", default="127.0.0.1:9101", help="host:port or unix:/path (default %(default)s)")
    p.add_argument("--nats", metavar="DIR", help="answer over the bus of a cluster instead, with the identity in this folder")
    p.add_argument("--token-file", help="file with the token that questions must have")
    p.add_argument("--objective", choices=OBJECTIVES, default="ilp1", help="ilp0: most pods; ilp1: fair (default)")
    p.add_argument("--gap", type=float, default=1e-4, help="how far from the best proven the answer may be, as a share (default %(default)s)")
    p.add_argument("--per-node", type=int, default=0, metavar="N", help="at most so many new pods of a function on a node, which makes models of ilp1 smaller (default: no such bound)")
    p.add_argument("--solve", metavar="FILE", help="solve the cases of a file (- is standard input) instead of listening; answers go to standard output, one a line")
    p.add_argument("--time-limit", type=float, default=10, help="seconds for each case of --solve (default %(default)s)")
    p.add_argument("--verbose", action="store_true", help="log each question")
    args = p.parse_args()
    if args.nats:
        return asyncio.run(serve_nats(args))
    if not args.solve:
        return serve(args)
    with sys.stdin if args.solve == "-" else open(args.solve) as f:
        cases = json.load(f)
    for case in cases:
        try:
            print(json.dumps(solve_case(case, args)), flush=True)
        except (TooLarge, KeyError, TypeError, ValueError) as e:
            sys.exit("a case cannot be solved: %s: %s" % (type(e).__name__, e))


if __name__ == "__main__":
    main()
