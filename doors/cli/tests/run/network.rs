//! Where the command listens, what proxies say, and what it logs.

use crate::client::{Client, get};
use crate::process::{Server, apps, command};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

#[test]
fn it_listens_at_several_places_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let unix = format!("unix:{}", path.display());
    let options = ["--workers", "1", "--bind", "127.0.0.1:0", "--bind", "[::1]:0", "--bind", &unix];
    let server = Server::start("plain", &options);
    let addresses = server.addresses(" application ");
    assert_eq!(addresses.len(), 2, "{}", server.log.text());
    for address in addresses {
        assert_eq!(get(address, "/list").text(), "one two");
    }
    let mut client = Client::over(UnixStream::connect(&path).unwrap());
    client.send(b"GET /environ HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n");
    let answer = client.answer(false).unwrap();
    // A client of a socket in the file system is a proxy on this machine.
    assert!(answer.text().contains("\"REMOTE_ADDR\": \"192.0.2.1\""), "{}", answer.text());
    server.end();
    assert!(!path.exists());
}

/// Opens a socket at the descriptor 3, as systemd does, and becomes the command of its arguments.
const LAUNCHER: &str = "import os, socket, sys
listener = socket.create_server(('127.0.0.1', 0))
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
if sys.argv[1] == 'systemd':
    os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execvp(sys.argv[2], sys.argv[2:])";

#[test]
fn it_takes_sockets_that_it_was_started_with() {
    for (by, options) in [("option", &["--fd", "3"][..]), ("systemd", &[])] {
        let mut launched = std::process::Command::new("python3");
        launched.args(["-c", LAUNCHER, by, env!("CARGO_BIN_EXE_hydrozoa"), "run", "plain"]);
        launched.arg("--app-dir").arg(apps()).args(["--workers", "1"]).args(options);
        let server = Server::of(launched);
        server.log.wait_for("the server is ready", 1);
        assert_eq!(get(server.address(), "/list").text(), "one two");
    }
}

async fn h2_get(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    uri: &str,
) -> (u16, String) {
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let request = hyper::Request::get(uri).body(String::new()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| {
        hyper::body::Body::poll_frame(std::pin::Pin::new(&mut body), context)
    })
    .await
    {
        text.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    (status, String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn http_2_comes_by_its_preface_and_by_tls() {
    for (application, target) in [("plain", "/environ"), ("coroutines", "/scope")] {
        let server = Server::start(application, &["--workers", "1"]);
        let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
        let (status, text) = h2_get(stream, &format!("http://b.example{target}")).await;
        assert_eq!(status, 200);
        assert!(text.contains("b.example") && text.contains("2\""), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let [certificate, key] = [&certificate, &key].map(|path| path.to_str().unwrap());
    let options = ["--workers", "1", "--certfile", certificate, "--keyfile", key];
    let server = Server::start("plain", &options);
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let (status, text) = h2_get(stream, "https://localhost/environ").await;
    assert!(status == 200 && text.contains("\"wsgi.url_scheme\": \"https\""), "{text}");
}

#[test]
fn a_trusted_proxy_names_the_client_and_others_do_not() {
    for (trusted, address) in [("127.0.0.1", "192.0.2.1"), ("10.0.0.0/8", "127.0.0.1")] {
        let options = ["--workers", "1", "--forwarded-allow-ips", trusted];
        let server = Server::start("plain", &options);
        let mut client = Client::new(server.address());
        let answer = client.ask(
            b"GET /environ HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n\r\n",
        );
        assert!(answer.text().contains(&format!("\"REMOTE_ADDR\": \"{address}\"")));
        let scheme = if trusted == "127.0.0.1" { "https" } else { "http" };
        assert!(answer.text().contains(&format!("\"wsgi.url_scheme\": \"{scheme}\"")));
        server.output.wait_for(&format!("{address} - - ["), 1);
    }
}

#[test]
fn health_and_metrics_have_an_address_of_their_own() {
    let server = Server::start("plain", &["--workers", "1", "--admin", "127.0.0.1:0"]);
    let admin = server.addresses("/healthz")[0];
    assert_eq!(get(server.address(), "/healthz").status, 404);
    assert_eq!(get(server.address(), "/list").status, 200);
    assert_eq!(get(admin, "/healthz").text(), "ok\n");
    let metrics = get(admin, "/metrics");
    for line in ["hydrozoa_web_workers 1", "hydrozoa_web_responses_total{status=\"2xx\"} 1"] {
        assert!(metrics.text().contains(line), "{}", metrics.text());
    }
}

#[test]
fn the_access_log_is_json_or_off_or_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access");
    let file = path.to_str().unwrap();
    let options = ["--workers", "1", "--access-log", file, "--access-log-format", "json"];
    let server = Server::start("plain", &options);
    get(server.address(), "/list?a=b");
    let (_, output) = server.end();
    assert_eq!(output, "");
    let line = std::fs::read_to_string(&path).unwrap();
    for words in ["\"status\":200", "\"bytes\":7", "\"client\":\"127.0.0.1\"", "\"method\":\"GET\""]
    {
        assert!(line.contains(words), "{words}: {line}");
    }
    let server = Server::start("plain", &["--workers", "1", "--access-log", "off"]);
    get(server.address(), "/list");
    assert_eq!(server.end().1, "");
}

#[test]
fn the_log_is_json_with_one_object_a_line() {
    let parsed = |log: &str| -> Vec<serde_json::Value> {
        log.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    };
    let server = Server::start("wrong", &["--workers", "1", "--log-format", "json"]);
    let ready = parsed(&server.log.text());
    let place = ready.iter().find_map(|line| {
        let message = line["message"].as_str().unwrap();
        message.contains(" application wrong,").then(|| message.rsplit(' ').next().unwrap().parse())
    });
    assert_eq!(get(place.unwrap().unwrap(), "/raise").status, 500);
    server.log.wait_for("LookupError: raised on purpose", 1);
    let (log, _) = server.end();
    let lines = parsed(&log);
    let raised = lines.iter().find(|line| line["level"] == "ERROR").unwrap();
    let message = raised["message"].as_str().unwrap();
    assert!(message.contains("for /raise:\nTraceback (most recent call last):"), "{message}");
    assert!(raised["timestamp"].as_str().unwrap().ends_with('Z'), "{raised}");
    // The reason for which it does not serve is one too.
    let mut server = Server::of(command("nowhere", &["--log-format", "json"]));
    assert_eq!(server.wait().code(), Some(1));
    let log = server.log.wait_for("there is no module", 1);
    assert!(parsed(&log).iter().any(|line| line["level"] == "ERROR"), "{log}");
}

#[test]
fn requests_beyond_the_room_get_503_at_once() {
    let options = ["--workers", "1", "--max-waiting", "1", "--timeout", "0"];
    let server = Server::start("plain", &options);
    let address = server.address();
    let slow: Vec<_> = (0..2)
        .map(|_| {
            let slow = std::thread::spawn(move || get(address, "/sleep?1").status);
            std::thread::sleep(std::time::Duration::from_millis(200));
            slow
        })
        .collect();
    let refused = get(address, "/list");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(slow.into_iter().all(|slow| slow.join().unwrap() == 200));
    let server = Server::start("coroutines", &["--workers", "1", "--limit-concurrency", "1"]);
    let address = server.address();
    let slow = std::thread::spawn(move || get(address, "/sleep?1").status);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(get(address, "/seen").status, 503);
    assert_eq!(slow.join().unwrap(), 200);
}
