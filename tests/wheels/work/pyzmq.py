"""pairs inside the process and over TCP, publishers, a poller, CURVE, a typed error"""

import threading

import zmq
import zmq.auth


def work(tell):
    context = zmq.Context()
    server = context.socket(zmq.REP)
    port = server.bind_to_random_port("tcp://127.0.0.1")

    def serve():
        for _ in range(50):
            server.send_multipart([part[::-1] for part in server.recv_multipart()])

    thread = threading.Thread(target=serve)
    thread.start()
    client = context.socket(zmq.REQ)
    client.connect(f"tcp://127.0.0.1:{port}")
    answers = []
    for i in range(50):
        client.send_multipart([b"part%d" % i, bytes(range(200))])
        answers.append(client.recv_multipart())
    thread.join()
    tell("answers", answers)
    left, right = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    left.bind("inproc://pair")
    right.connect("inproc://pair")
    right.send_json({"a": [1, 2.5]})
    tell("poll", left.poll(5000))
    tell("json", left.recv_json())
    publisher, subscriber = context.socket(zmq.PUB), context.socket(zmq.SUB)
    publisher.bind("inproc://news")
    subscriber.connect("inproc://news")
    subscriber.subscribe(b"a")
    for i in range(20):
        publisher.send_string(f"{'ab'[i % 2]}{i}")
    tell("news", [subscriber.recv() for _ in range(10)])
    tell("curve", zmq.curve_public(b"JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"))
    try:
        left.bind("inproc://pair")
    except zmq.ZMQError as error:
        tell("error", str(error))
    context.destroy(linger=0)
