# A client whose machine has vanished: it opens a stream, and from then on the kernel drops all that comes for it, so that
# nothing is acknowledged and no end is sent.
#
#   deaf.py HOST PORT REQUEST
import ctypes
import socket
import struct
import sys

SO_ATTACH_FILTER = 26
DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)

host, port, request = sys.argv[1:]
stream = socket.create_connection((host, int(port)))
stream.sendall(request.encode())
print(stream.recv(15).decode(), flush=True)
program = ctypes.create_string_buffer(DROP_ALL, len(DROP_ALL))
stream.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))
print("deaf", flush=True)
sys.stdin.read()
