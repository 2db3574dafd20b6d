//! WebSockets of applications of ASGI.

use crate::client::{Client, get};
use crate::process::{PATIENCE, Server};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket};

type Socket = WebSocket<TcpStream>;

fn with_protocols(
    address: SocketAddr,
    target: &str,
    protocols: &str,
) -> Result<(Socket, Response), Box<Error>> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = format!("ws://{address}{target}").into_client_request().unwrap();
    if !protocols.is_empty() {
        request.headers_mut().insert("sec-websocket-protocol", protocols.parse().unwrap());
    }
    tokio_tungstenite::tungstenite::client(request, stream).map_err(|error| match error {
        tokio_tungstenite::tungstenite::HandshakeError::Failure(error) => Box::new(error),
        other => panic!("{other}"),
    })
}

pub fn connect(address: SocketAddr, target: &str) -> Result<Socket, Box<Error>> {
    with_protocols(address, target, "").map(|(socket, _)| socket)
}

/// The code and the reason that a socket ends with.
fn end(mut socket: Socket) -> (u16, String) {
    loop {
        match socket.read() {
            Ok(Message::Close(Some(frame))) => {
                return (frame.code.into(), frame.reason.to_string());
            }
            Ok(Message::Close(None)) => return (1005, String::new()),
            Ok(_) => {}
            Err(error) => panic!("it ends without a close: {error}"),
        }
    }
}

#[test]
fn messages_go_both_ways() {
    let server = Server::start("coroutines", &["--workers", "1"]);
    let (mut socket, response) = with_protocols(server.address(), "/echo", "one, two").unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "two");
    assert_eq!(response.headers()["x-a"], "b");
    for message in [
        Message::text("caf\u{e9}"),
        Message::text(""),
        Message::binary(vec![0, 255]),
        Message::binary(vec![7; 3_000_000]),
    ] {
        socket.send(message.clone()).unwrap();
        assert_eq!(socket.read().unwrap(), message);
    }
    socket.send(Message::Ping("ping".into())).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Pong("ping".into()));
    // A message in two frames, with a ping between them.
    let first = Frame::message("one ", OpCode::Data(Data::Text), false);
    let last = Frame::message("two", OpCode::Data(Data::Continue), true);
    socket.send(Message::Frame(first)).unwrap();
    socket.send(Message::Ping("".into())).unwrap();
    socket.send(Message::Frame(last)).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Pong("".into()));
    assert_eq!(socket.read().unwrap(), Message::text("one two"));
    let frame = CloseFrame { code: 4002.into(), reason: "bye".into() };
    socket.close(Some(frame)).unwrap();
    assert_eq!(end(socket), (4002, "bye".to_owned()));
    let scope = connect(server.address(), "/scope").unwrap().read().unwrap();
    let expected = "ws ['asgi', 'client', 'extensions', 'headers', 'http_version', 'path', 'query_string', 'raw_path', \
                    'root_path', 'scheme', 'server', 'state', 'subprotocols', 'type']";
    assert_eq!(scope, Message::text(expected));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = get(server.address(), "/seen");
        // The second client has gone without a word.
        if seen.text().contains("4002 bye") && seen.text().contains("1006 ") {
            break;
        }
        assert!(Instant::now() < deadline, "{}", seen.text());
        std::thread::sleep(Duration::from_millis(20));
    }
    let (log, _) = server.end();
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn an_application_rejects_closes_and_fails() {
    let server = Server::start("coroutines", &["--workers", "1"]);
    let address = server.address();
    for (target, status) in [("/reject", 403), ("/return-early", 500), ("/raise-early", 500)] {
        match *connect(address, target).map(drop).unwrap_err() {
            Error::Http(response) => assert_eq!(response.status(), status, "{target}"),
            other => panic!("{target}: {other}"),
        }
    }
    let mut client = Client::new(address);
    let asked = "GET /deny HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let denied = client.ask(asked.as_bytes());
    assert_eq!((denied.status, denied.text(), denied.header("x-a")), (401, "not you", Some("b")));
    // It hears that the client has gone, and the connection goes on.
    let deadline = Instant::now() + PATIENCE;
    while !client.get("/seen").text().contains("websocket.disconnect") {
        assert!(Instant::now() < deadline, "the application hears nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The longest reason that a frame has room for; a longer one is the application's error.
    let long = "\u{e9}".repeat(61) + ".";
    for (target, code, reason) in [
        ("/close", 4001, "enough"),
        ("/close-long", 4002, &long),
        ("/raise", 1011, ""),
        ("/return", 1000, ""),
    ] {
        let socket = connect(address, target).unwrap();
        assert_eq!(end(socket), (code, reason.to_owned()), "{target}");
    }
    server.log.wait_for("LookupError: raised in a socket", 1);
    let mut client = Client::new(address);
    let wrong =
        "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(client.ask(wrong.as_bytes()).status, 426);
}

/// So an application that only sends comes to its end.
#[test]
fn a_message_to_a_client_that_has_gone_is_an_oserror() {
    let server = Server::start("coroutines", &["--workers", "1"]);
    let mut socket = connect(server.address(), "/ticks").unwrap();
    assert_eq!(socket.read().unwrap(), Message::text("tick"));
    drop(socket);
    let deadline = Instant::now() + PATIENCE;
    let gone = "the ticks ended by ClientGone('the client of this WebSocket has gone')";
    while !get(server.address(), "/seen").text().contains(gone) {
        assert!(Instant::now() < deadline, "the application hears nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (log, _) = server.end();
    assert!(!log.contains("ERROR"), "{log}");
    // After a close of its own it is the application's error.
    let server = Server::start("coroutines", &["--workers", "1"]);
    assert_eq!(end(connect(server.address(), "/close-and-send").unwrap()).0, 1000);
    server.log.wait_for("RuntimeError: websocket.send was sent behind websocket.close", 1);
}

#[test]
fn a_client_that_does_not_read_holds_no_memory_and_wrong_frames_end_a_socket() {
    let server = Server::start("coroutines", &["--workers", "1"]);
    let address = server.address();
    let before = server.peak();
    let flooded = connect(address, "/flood").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let more = server.peak().saturating_sub(before);
    assert!(more < 24 << 20, "{more} bytes more than before");
    drop(flooded);
    let mut socket = connect(address, "/echo").unwrap();
    // A text that is not UTF-8.
    let wrong = Frame::message(vec![0xff, 0xfe], OpCode::Data(Data::Text), true);
    socket.send(Message::Frame(wrong)).unwrap();
    assert_eq!(end(socket).0, 1007);
    // The largest message, and one that is larger.
    let mut socket = connect(address, "/echo").unwrap();
    let largest = Message::binary(vec![7; 16 << 20]);
    socket.send(largest.clone()).unwrap();
    assert_eq!(socket.read().unwrap(), largest);
    let _ = socket.send(Message::binary(vec![7; (16 << 20) + 1]));
    assert_eq!(end(socket).0, 1009);
    // A close that is longer than a close may be.
    let mut socket = connect(address, "/echo").unwrap();
    socket.close(Some(CloseFrame { code: 1000.into(), reason: "a".repeat(124).into() })).unwrap();
    assert_eq!(end(socket).0, 1002);
}

#[test]
fn the_end_and_a_reload_close_sockets_so_that_clients_come_again() {
    let server = Server::start("coroutines", &["--workers", "1"]);
    let socket = connect(server.address(), "/echo").unwrap();
    server.signal("HUP");
    assert_eq!(end(socket).0, 1012);
    server.log.wait_for("worker 1 is replaced", 1);
    let mut socket = connect(server.address(), "/echo").unwrap();
    socket.send(Message::text("again")).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text("again"));
    server.signal("TERM");
    assert_eq!(end(socket).0, 1012);
    let (log, _) = {
        let mut server = server;
        server.wait();
        (server.log.text(), ())
    };
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn a_worker_with_idle_sockets_has_its_memory_in_files() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let options = ["--workers", "1", "--dense", folder.path().to_str().unwrap()];
    let server = Server::start("coroutines", &options);
    let mut sockets: Vec<_> = (0..5).map(|_| connect(server.address(), "/echo").unwrap()).collect();
    let mut talk = || {
        for socket in &mut sockets {
            socket.send(Message::text("hello")).unwrap();
            assert_eq!(socket.read().unwrap(), Message::text("hello"));
        }
    };
    talk();
    let full = server.anonymous();
    let end = Instant::now() + Duration::from_secs(60);
    while server.anonymous() * 3 > full * 2 {
        assert!(Instant::now() < end, "{} of {full}", server.anonymous());
        std::thread::sleep(Duration::from_millis(50));
    }
    talk();
    server.end();
}

#[test]
fn messages_are_compressed_where_the_client_offers_it() {
    let server = Server::start("coroutines", &["--workers", "1"]);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    let terms = "sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n";
    assert!(head.contains(terms), "{head}");
    // Twice: no message leans on the one before.
    let text = "a long text ".repeat(1000);
    for _ in 0..2 {
        // "Hello" of RFC 7692, 7.2.3.1, masked by zeros. It comes back as it is, for it is short.
        stream.write_all(b"\xc1\x87\0\0\0\0\xf2\x48\xcd\xc9\xc9\x07\x00").unwrap();
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"\x81\x05Hello");
        let mut frame = b"\x81\xfe".to_vec();
        frame.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(text.as_bytes());
        stream.write_all(&frame).unwrap();
        let mut start = [0; 2];
        stream.read_exact(&mut start).unwrap();
        // The end of a message, compressed, of text.
        assert_eq!(start[0], 0xc1);
        let mut length = usize::from(start[1]);
        if length == 126 {
            stream.read_exact(&mut start).unwrap();
            length = u16::from_be_bytes(start).into();
        }
        let mut compressed = vec![0; length];
        stream.read_exact(&mut compressed).unwrap();
        compressed.extend_from_slice(&[0, 0, 0xff, 0xff]);
        let mut inflated = vec![0; text.len() + 1];
        let mut inflate = flate2::Decompress::new(false);
        inflate.decompress(&compressed, &mut inflated, flate2::FlushDecompress::Sync).unwrap();
        inflated.truncate(usize::try_from(inflate.total_out()).unwrap());
        assert_eq!(String::from_utf8(inflated).unwrap(), text);
    }
    // Compressed data that is damaged ends the socket, and nothing else.
    stream.write_all(b"\xc1\x83\0\0\0\0\xff\xff\xff").unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"\x88\x02\x03\xea");
    let mut socket = connect(server.address(), "/echo").unwrap();
    socket.send(Message::text("again")).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text("again"));
    server.end();
}
