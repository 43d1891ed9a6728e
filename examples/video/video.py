#!/usr/bin/env python3
"""A video pipeline of four services: source, aggregation, detection, tracking.

Each is this program with its name as the argument. A frame goes from one to the
next over HTTP, by value (the picture is the body) or by reference (the body is
the name of an object, which detection reads from its worker's object store).
The answer comes back the same way, with how long each stage has computed.
"""
import http.client
import importlib.util
import json
import os
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import cv2
import numpy as np

# One core for each service, as in the paper's machines.
cv2.setNumThreads(1)

MAX_BODY = 16 << 20


class Watch:
    """How long a stage computes: by the clock, and on the processor."""

    def __init__(self):
        self.began = time.perf_counter(), time.thread_time()

    def stop(self):
        self.took = [(now - then) * 1000 for now, then in zip((time.perf_counter(), time.thread_time()), self.began)]

    def write(self, stage, answer):
        answer["stages"][stage], answer["cpu"][stage] = self.took


def ask(service, path, body=b""):
    """Sends to a service of this application and returns its answer."""
    connection = http.client.HTTPConnection(os.environ["VERGE_%s_ADDR" % service.upper()], timeout=60)
    try:
        connection.request("POST", path, body)
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError("%s answers %d: %s" % (service, answer.status, data[:200].decode("utf-8", "replace")))
    return json.loads(data)


def object_url(name):
    return "%s/%s/%s" % (os.environ["VERGE_OBJECTS"], os.environ["VERGE_NAMESPACE"], name)


def jpeg(picture):
    ok, data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 85])
    if not ok:
        raise RuntimeError("the frame cannot be encoded")
    return data.tobytes()


def picture(data):
    frame = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if frame is None:
        raise ValueError("this is no picture")
    return frame


class Source:
    """Two cameras that move over pictures which ship with scikit-image."""

    def __init__(self):
        # They are files of the package; importing it would need all that it needs.
        found = importlib.util.find_spec("skimage")
        if found is None:
            sys.exit("verge-video: scikit-image is missing: run setup.sh again")
        self.pictures = []
        for name in ("astronaut.png", "camera.png"):
            path = os.path.join(found.submodule_search_locations[0], "data", name)
            frame = cv2.imread(path, cv2.IMREAD_COLOR)
            if frame is None:
                sys.exit("verge-video: the picture %s cannot be read: run setup.sh again" % path)
            self.pictures.append(frame)

    def frames(self, n):
        at = 20 + 2 * n % 40
        return [p[:, at:at + 384] for p in self.pictures]

    def work(self, query, _body):
        by, count = query.get("by", "value"), min(int(query.get("frames", "1")), 1000)
        if by not in ("value", "reference"):
            raise ValueError("by is value or reference")
        out = []
        for n in range(count):
            whole, watch = Watch(), Watch()
            body = b"".join(len(j).to_bytes(4, "big") + j for j in map(jpeg, self.frames(n)))
            watch.stop()
            answer = ask("aggregation", "/?by=" + by, body)
            watch.write("source", answer)
            whole.stop()
            answer["total"] = whole.took[0]
            out.append(answer)
        return out


class Aggregation:
    """Stitches the cameras' pictures and takes the noise out."""

    def work(self, query, body):
        watch = Watch()
        parts = []
        while body:
            size = int.from_bytes(body[:4], "big")
            parts.append(picture(body[4:4 + size]))
            body = body[4 + size:]
        frame = cv2.GaussianBlur(cv2.resize(np.hstack(parts), (640, 426)), (3, 3), 0)
        data = jpeg(frame)
        watch.stop()
        if query.get("by") == "reference":
            name = "frames/%s" % os.environ.get("VERGE_INSTANCE", "native")
            urllib.request.urlopen(urllib.request.Request(object_url(name), data, method="PUT"), timeout=60).close()
            answer = ask("detection", "/?by=reference", name.encode())
        else:
            answer = ask("detection", "/", data)
        watch.write("aggregation", answer)
        return answer


class Detection:
    """OpenCV's detector of people, which has its weights inside."""

    def __init__(self):
        self.hog = cv2.HOGDescriptor()
        self.hog.setSVMDetector(cv2.HOGDescriptor_getDefaultPeopleDetector())

    def work(self, query, body):
        if query.get("by") == "reference":
            with urllib.request.urlopen(object_url(body.decode()), timeout=60) as answer:
                body = answer.read(MAX_BODY)
        watch = Watch()
        # Below its usual threshold of 0: the detector knows people who stand, and these
        # pictures have none. So tracking has something to follow, right or wrong.
        boxes, _ = self.hog.detectMultiScale(picture(body), hitThreshold=-0.7, winStride=(8, 8), padding=(8, 8), scale=1.05)
        found = [[int(v) for v in box] for box in boxes]
        watch.stop()
        answer = ask("tracking", "/", json.dumps(found).encode())
        watch.write("detection", answer)
        return answer


def overlap(a, b):
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / (a[2] * a[3] + b[2] * b[3] - width * height)


class Tracking:
    """Gives what is seen again the number that it had."""

    def __init__(self):
        self.known, self.given = {}, 0

    def work(self, _query, body):
        watch = Watch()
        now = {}
        for box in json.loads(body):
            best = max(self.known, key=lambda n: overlap(self.known[n], box), default=None)
            if best is None or best in now or overlap(self.known[best], box) < 0.3:
                self.given += 1
                best = self.given
            now[best] = box
        self.known = now
        watch.stop()
        answer = {"tracks": {str(n): box for n, box in now.items()}, "stages": {}, "cpu": {}}
        watch.write("tracking", answer)
        return answer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stage = None
    one = threading.Lock()  # frame at a time: there is one core

    def answer(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/healthz":
            self.answer(200, "ok")
        else:
            self.do_POST()

    def do_POST(self):
        try:
            size = int(self.headers.get("Content-Length") or 0)
            if size > MAX_BODY:
                self.close_connection = True
                return self.answer(413, "at most %d bytes" % MAX_BODY)
            body = self.rfile.read(size)
            query = dict(p.split("=", 1) for p in self.path.partition("?")[2].split("&") if "=" in p)
            with self.one:
                answer = self.stage.work(query, body)
            self.answer(200, answer)
        except ValueError as error:
            self.answer(400, str(error))
        except Exception as error:  # whatever it is, who asked is told
            self.answer(502, str(error))

    def log_message(self, *_):
        pass


def main():
    stages = {"source": Source, "aggregation": Aggregation, "detection": Detection, "tracking": Tracking}
    if len(sys.argv) != 2 or sys.argv[1] not in stages:
        sys.exit("usage: verge-video " + "|".join(stages))
    Handler.stage = stages[sys.argv[1]]()
    host = os.environ.get("VERGE_LISTEN", "127.0.0.1")
    if ":" in host:
        import socket
        ThreadingHTTPServer.address_family = socket.AF_INET6
    ThreadingHTTPServer((host, int(os.environ["PORT"])), Handler).serve_forever()


if __name__ == "__main__":
    main()
