"""A gRPC server that accepts bytes. Arguments: port, workers, milliseconds of work per call."""

import sys
import time
from concurrent import futures

import grpc

PORT, WORKERS, PAUSE = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000


def say(request, _):
    time.sleep(PAUSE)
    return request


server = grpc.server(futures.ThreadPoolExecutor(WORKERS))
method = grpc.unary_unary_rpc_method_handler(say)
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Field", {"Say": method})])
server.add_insecure_port(f"0.0.0.0:{PORT}")
server.start()
server.wait_for_termination()
