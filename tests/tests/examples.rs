//! The examples that other tests do not run.

#[path = "../../runtime/examples/batch.rs"]
#[expect(dead_code, reason = "the tests call what main calls")]
mod batch;
#[path = "../../runtime/examples/plugins.rs"]
#[expect(dead_code, reason = "the tests call what main calls")]
mod plugins;
#[path = "../../runtime/examples/service.rs"]
#[expect(dead_code, reason = "the tests call what main calls")]
mod service;

use hydrozoa::Pool;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;

/// Sends numbers to the service. Returns the status, the number of requests that were answered at once, and the body.
fn ask(address: SocketAddr, body: &str) -> (u16, usize, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /predict HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let batch = head.lines().find_map(|line| line.strip_prefix("x-batch: "));
    (status, batch.map_or(0, |batch| batch.parse().unwrap()), body.to_owned())
}

#[test]
fn the_service_answers_many_requests_with_one_call() {
    let pool = Pool::builder().interpreters(2).build().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let service = service::service(&pool).unwrap();
    runtime.spawn(async { axum::serve(listener, service).await });
    let answers: Vec<_> = thread::scope(|scope| {
        let client = |number| move || (number, ask(address, &format!("[{number}, 1]")));
        let clients: Vec<_> = (0..40).map(|number| scope.spawn(client(number))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    for (number, (status, _, body)) in &answers {
        assert_eq!(
            (*status, body.as_str()),
            (200, format!("{number}.0", number = number + 1).as_str())
        );
    }
    assert!(answers.iter().any(|(_, (_, batch, _))| *batch > 1), "{answers:?}");
    assert_eq!(ask(address, "not numbers").0, 400);
}

#[test]
fn the_host_of_plug_ins_ends_what_takes_too_much() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/examples/plugins");
    let outcomes = plugins::run(&folder, "saved").unwrap();
    let [(_, greedy), (_, history), (_, stuck)] = outcomes.try_into().unwrap();
    assert!(greedy.starts_with("failed: MemoryError"), "{greedy}");
    assert_eq!(history, "saved is event 1");
    assert_eq!(stuck, "ended after 200ms");
}

#[test]
fn the_batch_job_works_on_all_files_but_those_with_errors() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..20).map(|index| folder.path().join(format!("{index}.py"))).collect();
    for (index, file) in files.iter().enumerate() {
        let code =
            if index == 7 { "no Python".to_owned() } else { "def f(): pass\n".repeat(index) };
        std::fs::write(file, code).unwrap();
    }
    let pool = Pool::builder().interpreters(2).build().unwrap();
    let seen = std::cell::RefCell::new(Vec::new());
    let results = batch::run(&pool, &files, |done| seen.borrow_mut().push(done)).unwrap();
    for (index, result) in results.iter().enumerate() {
        match result {
            Ok(count) => assert_eq!((*count, index == 7), (index as u64, false)),
            Err(error) => {
                assert!(index == 7 && error.to_string().starts_with("SyntaxError"), "{error}")
            }
        }
    }
    assert_eq!(seen.into_inner(), (1..=20).collect::<Vec<_>>());
}
