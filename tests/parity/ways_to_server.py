"""Ways to a server on a port of this machine for tests: behind TLS, and through a proxy that knows a name for it."""
import socket
import ssl
import subprocess
import threading


def make_certificate(folder, name):
    """An authority, and a certificate of it for `name` and localhost; the paths of authority, certificate and key."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", "server.key", "-out", "server.csr")
    (folder / "names").write_text(f"subjectAltName=DNS:{name},DNS:localhost\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names",
            "-out", "server.pem")
    return folder / "ca.pem", folder / "server.pem", folder / "server.key"


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def join(one, other):
    """Both ways between two connections, until one of them ends."""
    threading.Thread(target=pump, args=(one, other), daemon=True).start()
    pump(other, one)


def serve(handle):
    """A port of this machine each of whose connections `handle` takes, on a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            threading.Thread(target=handle, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def serve_tls(certificate, key, port):
    """TLS in front of `port`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def handle(connection):
        try:
            join(context.wrap_socket(connection, server_side=True), socket.create_connection(("127.0.0.1", port)))
        except (OSError, ssl.SSLError):
            connection.close()  # who does not trust the certificate is gone

    return serve(handle)


def serve_proxy(name, asked):
    """A proxy for which `name` is this machine; what it was asked for goes to the list `asked`: "CONNECT name:1", "POST http://name:1/path"."""
    def handle(connection):
        head = b""
        while b"\r\n\r\n" not in head:
            data = connection.recv(65536)
            if not data:
                return
            head += data
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        asked.append(f"{method} {target}")
        authority = target.split("://")[-1].split("/")[0]
        host, port = authority.rsplit(":", 1)
        assert host == name, target
        server = socket.create_connection(("127.0.0.1", int(port)))
        if method == "CONNECT":
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = target.split(authority, 1)[1]
            server.sendall(head.replace(target.encode(), path.encode(), 1))
        join(connection, server)

    return serve(handle)
