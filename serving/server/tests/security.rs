//! TLS and tokens, over HTTP and gRPC.

mod common;

use common::{Answer, ECHO, FLOATS, Site, whole};
use hydrozoa_server::grpc::{self, Options};
use hydrozoa_server::http::Limits;
use hydrozoa_server::{Control, Hosts, Server, Settings, Tls, TlsError, Tokens};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request};

/// The client's side of the protocol.
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    dead_code,
    reason = "the code is generated"
)]
mod inference {
    tonic::include_proto!("client/inference");
}

use inference::grpc_inference_service_client::GrpcInferenceServiceClient;
use inference::{RepositoryIndexRequest, ServerLiveRequest};

/// Certificates in files of their own.
struct Papers {
    folder: tempfile::TempDir,
}

impl Papers {
    /// An authority, a server for `localhost` and a client that it vouches for, and a stranger.
    fn new() -> Self {
        let papers = Self { folder: tempfile::tempdir().unwrap() };
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(papers.path("root.pem"), certificate.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            fs::write(papers.path(&format!("{name}.pem")), certificate.pem()).unwrap();
            fs::write(papers.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        fs::write(papers.path("stranger.pem"), stranger.cert.pem()).unwrap();
        fs::write(papers.path("stranger.key"), stranger.signing_key.serialize_pem()).unwrap();
        papers
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn tls(&self, is_mutual: bool) -> Tls {
        let root = self.path("root.pem");
        let clients = is_mutual.then_some(root.as_path());
        Tls::load(&self.path("server.pem"), &self.path("server.key"), clients).unwrap()
    }

    /// A client that trusts `root`, with the certificate of this name.
    fn client(&self, root: &str, name: Option<&str>) -> ClientConfig {
        let certificate =
            |name: &str| CertificateDer::from_pem_slice(self.text(name).as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate(root)).unwrap();
        let builder = ClientConfig::builder().with_root_certificates(roots);
        match name {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let key = self.text(&format!("{name}.key"));
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                let chain = vec![certificate(&format!("{name}.pem"))];
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        }
    }
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

/// A request with TLS; `None` if no response comes.
fn ask(address: SocketAddr, client: ClientConfig, request: &str) -> Option<Answer> {
    let connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(common::PATIENCE)).unwrap();
    let name = "localhost".try_into().unwrap();
    let client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut stream = StreamOwned::new(client, connection);
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    // Whether the end was announced is not what is asked here.
    drop(stream.read_to_end(&mut answer));
    Answer::of(&answer)
}

#[test]
fn http_has_tls_for_those_who_trust_the_certificate() {
    let papers = Papers::new();
    let site = Site::with_tls(Some(papers.tls(false)), Limits::default(), |_| {});
    site.model("m", FLOATS, ECHO);
    let trusting = || papers.client("root.pem", None);
    let answer = ask(site.address, trusting(), &get("/v2/models/m", "")).unwrap();
    assert_eq!(answer.ok()["name"], "m");
    let doubting = papers.client("stranger.pem", None);
    assert!(ask(site.address, doubting, &get("/v2", "")).is_none());
    // Without TLS there is nothing to read.
    let plain = site.raw(get("/v2", "").as_bytes());
    assert!(Answer::of(&plain).is_none(), "{}", String::from_utf8_lossy(&plain));
    // Nobody waits for one who says nothing.
    let silent = site.connect();
    ask(site.address, trusting(), &get("/v2/health/ready", "")).unwrap().ok();
    drop(silent);
    // Inputs of megabytes come in many records.
    let mut data = "0,".repeat(1 << 20);
    data.pop();
    let body = format!(
        "{{\"inputs\":[{{\"name\":\"IN\",\"datatype\":\"FP32\",\"shape\":[1,{}],\"data\":[{data}]}}]}}",
        1 << 20
    );
    let request = whole("/v2/models/m/infer", &body);
    let request = request.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    let answer = ask(site.address, trusting(), &request).unwrap();
    assert_eq!(answer.ok()["outputs"][0]["shape"][1], 1 << 20);
}

#[test]
fn only_clients_with_a_certificate_are_served_if_they_must_have_one() {
    let papers = Papers::new();
    let site = Site::with_tls(Some(papers.tls(true)), Limits::default(), |_| {});
    let asks = |name: Option<&str>| {
        ask(site.address, papers.client("root.pem", name), &get("/v2/health/live", ""))
    };
    assert!(asks(None).is_none());
    assert!(asks(Some("stranger")).is_none());
    asks(Some("client")).unwrap().ok();
}

#[test]
fn a_certificate_that_cannot_be_used_says_why() {
    let papers = Papers::new();
    let path = |name: &str| papers.path(name);
    fs::write(path("empty"), "").unwrap();
    fs::write(path("broken"), "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")
        .unwrap();
    for (certificate, key, root, words) in [
        ("absent", "server.key", None, "reading "),
        ("server.pem", "absent", None, "reading "),
        ("empty", "server.key", None, "empty has no certificate in PEM"),
        ("server.pem", "server.pem", None, "server.pem has no private key in PEM"),
        ("server.pem", "client.key", None, "client.key cannot be used: "),
        ("server.pem", "server.key", Some("empty"), "empty has no certificate in PEM"),
        ("server.pem", "server.key", Some("broken"), "broken cannot be used: "),
    ] {
        let root = root.map(path);
        let loaded = Tls::load(&path(certificate), &path(key), root.as_deref());
        let error: TlsError = loaded.map(drop).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(format!("{:?}", papers.tls(false)), "Tls { clients: false }");
}

fn tokens(settings: &mut Settings, folder: &tempfile::TempDir) {
    let path = folder.path().join("tokens");
    fs::write(&path, "one\ntwo\n").unwrap();
    settings.tokens = Some(Tokens::load(&path).unwrap());
}

#[test]
fn http_refuses_who_has_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::with(Limits::default(), |settings| tokens(settings, &folder));
    site.model("m", FLOATS, ECHO);
    for path in ["/v2/health/live", "/v2/health/ready"] {
        site.get(path).ok();
    }
    let shows = |path: &str, token: &str| {
        site.request("GET", path, &[("Authorization", &format!("Bearer {token}"))], b"")
    };
    for path in ["/v2", "/v2/models/m/ready", "/metrics", "/no", "/v2/health/live/"] {
        for answer in [site.get(path), shows(path, "three"), shows(path, "on"), shows(path, "")] {
            let message = answer.error(401);
            assert!(message.contains("`Authorization: Bearer TOKEN`"), "{message}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(shows("/v2", "one").ok(), shows("/v2", "two").ok());
    let large = vec![b' '; 1 << 20];
    site.post("/v2/models/m/infer", &large).error(401);
    assert_eq!(site.service.server().model("m", None).unwrap().statistics().executions, 0);
}

/// A server of gRPC, without models.
async fn start(options: Options, change: impl FnOnce(&mut Settings)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut settings = Settings::default();
    change(&mut settings);
    let service = hydrozoa_server::Service::new(Server::new(hydrozoa::Pool::builder), settings);
    service.open();
    tokio::spawn(grpc::serve(listener, service, options, std::future::pending()));
    address
}

type Client = GrpcInferenceServiceClient<Channel>;

async fn connect(
    address: SocketAddr,
    config: ClientTlsConfig,
) -> Result<Client, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap();
    let channel = endpoint.tls_config(config.domain_name("localhost")).unwrap().connect().await?;
    Ok(Client::new(channel))
}

/// Whether a server answers. A client that it does not want may hear of that when it asks.
async fn answers(address: SocketAddr, config: ClientTlsConfig) -> bool {
    match connect(address, config).await {
        Ok(mut client) => client.server_live(ServerLiveRequest {}).await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_has_tls_for_those_who_trust_the_certificate_and_are_trusted() {
    let papers = Papers::new();
    let trusting = |name: &str| {
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(papers.text(name)))
    };
    let identity = |name: &str| {
        let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
        Identity::from_pem(papers.text(&certificate), papers.text(&key))
    };
    let options = Options { tls: Some(papers.tls(false)), ..Options::default() };
    let address = start(options, |_| {}).await;
    assert!(!answers(address, trusting("stranger.pem")).await);
    let plain = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await;
    if let Ok(channel) = plain {
        Client::new(channel).server_live(ServerLiveRequest {}).await.unwrap_err();
    }
    assert!(answers(address, trusting("root.pem")).await);

    let options = Options { tls: Some(papers.tls(true)), ..Options::default() };
    let address = start(options, |_| {}).await;
    assert!(!answers(address, trusting("root.pem")).await);
    assert!(!answers(address, trusting("root.pem").identity(identity("stranger"))).await);
    assert!(answers(address, trusting("root.pem").identity(identity("client"))).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_refuses_who_has_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let address = start(Options::default(), |settings| tokens(settings, &folder)).await;
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = Client::new(endpoint.connect().await.unwrap());
    client.server_live(ServerLiveRequest {}).await.unwrap();
    let shows = |token: &'static str| {
        let mut request = Request::new(RepositoryIndexRequest::default());
        if !token.is_empty() {
            request.metadata_mut().insert("authorization", token.parse().unwrap());
        }
        request
    };
    for wrong in ["", "Bearer three", "one", "Basic one"] {
        let status = client.repository_index(shows(wrong)).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated);
        assert!(status.message().contains("`authorization: Bearer TOKEN`"), "{status:?}");
    }
    client.repository_index(shows("Bearer two")).await.unwrap();
}

#[test]
fn http_refuses_who_names_another_host() {
    let site = Site::with(Limits::default(), |settings| {
        settings.hosts = Hosts::parse(["models.example:80"]).unwrap();
    });
    let of = |path: &str, host: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        Answer::of(&site.raw(request.as_bytes())).unwrap()
    };
    let port = site.address.port();
    for path in ["/", "/status", "/metrics", "/v2", "/v2/health/live"] {
        // A probe names the address that it connects to.
        for host in
            [&format!("127.0.0.1:{port}"), "localhost", "LOCALHOST:1", "[::1]", "models.example:80"]
        {
            assert_eq!(of(path, host).status, 200, "{host} {path}");
        }
        for host in
            ["evil.example", &format!("evil.example:{port}"), "10.1.2.3", "models.example", "127.1"]
        {
            let message = of(path, host).error(421);
            assert!(message.contains(&format!("--allow-host {host}")), "{message}");
        }
    }
    let any =
        Site::with(Limits::default(), |settings| settings.hosts = Hosts::parse(["*"]).unwrap());
    let request = b"GET /v2 HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    Answer::of(&any.raw(request)).unwrap().ok();
}

#[test]
fn http_refuses_what_a_page_of_another_site_sends() {
    let site = Site::with(Limits::default(), |settings| {
        (settings.control, settings.client_files) = (Control::Clients, true);
    });
    site.write("m", 1, FLOATS, ECHO);
    let own = format!("http://{}", site.address);
    let load = "/v2/repository/models/m/load";
    let posts = [
        load,
        "/v2/repository/index",
        "/v2/systemsharedmemory/register",
        "/v2/logging",
        "/v2/models/m/infer",
    ];
    for (name, value) in [
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://localhost:1"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        for path in posts {
            let headers = [(name, value), ("Content-Type", "text/plain")];
            site.request("POST", path, &headers, b"{}").error(403);
        }
        site.request("DELETE", "/v2", &[(name, value)], b"").error(403);
        // Its page can read no answer, so what only asks does no harm.
        site.request("GET", "/v2", &[(name, value)], b"").ok();
    }
    assert!(site.service.server().model("m", None).is_err(), "the model is loaded");
    let message = site.request("POST", load, &[("Origin", "http://evil.example")], b"").error(403);
    assert!(
        message.contains("http://evil.example") && message.contains("--allow-host"),
        "{message}"
    );
    let post = |host: &str, headers: &str| {
        let head = format!("POST {load} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        let request = format!("{head}Content-Length: 0\r\n{headers}\r\n");
        Answer::of(&site.raw(request.as_bytes())).unwrap().status
    };
    let host = site.address.to_string();
    assert_eq!(
        post("localhost:1", "Origin: http://localhost:1\r\nSec-Fetch-Site: same-origin\r\n"),
        200
    );
    assert_eq!(post(&host, &format!("Origin: {own}\r\nSec-Fetch-Site: none\r\n")), 200);
    assert_eq!(
        post("evil.example", "Origin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\n"),
        421
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_refuses_other_hosts_and_pages_of_other_sites() {
    let address = start(Options::default(), |settings| settings.control = Control::Clients).await;
    let of = async |host: &str, headers: &[(&'static str, &'static str)]| {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let channel =
            endpoint.origin(format!("http://{host}").parse().unwrap()).connect().await.unwrap();
        let mut request = Request::new(ServerLiveRequest {});
        for (name, value) in headers {
            request.metadata_mut().insert(*name, value.parse().unwrap());
        }
        Client::new(channel)
            .server_live(request)
            .await
            .map_err(|status| (status.code(), status.message().to_owned()))
    };
    let own = address.to_string();
    for host in [own.as_str(), "localhost", "localhost:9"] {
        of(host, &[]).await.unwrap();
    }
    for host in ["evil.example", "10.1.2.3:80"] {
        let (code, message) = of(host, &[]).await.unwrap_err();
        assert_eq!(code, Code::PermissionDenied);
        assert!(message.contains(&format!("--allow-host {host}")), "{message}");
    }
    for header in [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")] {
        let (code, message) = of("localhost", &[header]).await.unwrap_err();
        assert!(code == Code::PermissionDenied && message.contains(header.1), "{message}");
    }
    let address =
        start(Options::default(), |settings| settings.hosts = Hosts::parse(["*"]).unwrap()).await;
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let endpoint = endpoint.origin("http://evil.example".parse().unwrap());
    Client::new(endpoint.connect().await.unwrap()).server_live(ServerLiveRequest {}).await.unwrap();
}
