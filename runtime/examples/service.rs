//! An HTTP service that answers many requests with one call of Python (dynamic batching), on every interpreter of a pool.
//!
//! ```sh
//! cargo run --release -p hydrozoa-examples --features service --example service
//! curl -i --json '[1, 2, 3]' http://127.0.0.1:3000/predict
//! ```

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use hydrozoa::{Pool, Session};
use std::error::Error;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Stands for a model. A batch takes it as long as one input.
const MODEL: &str = "
import time

def predict(batch):
    time.sleep(0.005)
    return [sum(features) for features in batch]
";

/// The most requests of one call.
const LARGEST: usize = 32;

/// How long the first request of a batch waits for others.
const PATIENCE: Duration = Duration::from_millis(2);

/// The most requests that wait for an interpreter.
const WAITING: usize = 1024;

struct Request {
    features: Vec<f64>,
    answer: oneshot::Sender<Result<Answer, String>>,
}

struct Answer {
    score: f64,
    /// How many requests the call answered.
    batch: usize,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::builder().interpreters(2).build()?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}/predict", listener.local_addr()?);
    let interrupted = async { tokio::signal::ctrl_c().await.expect("SIGINT can be watched") };
    axum::serve(listener, service(&pool)?).with_graceful_shutdown(interrupted).await?;
    Ok(())
}

/// Starts a thread for each interpreter. The threads end when the service is dropped.
pub fn service(pool: &Pool) -> hydrozoa::Result<Router> {
    let (sender, receiver) = sync_channel(WAITING);
    let queue = Arc::new(Mutex::new(receiver));
    for interpreter in &pool.interpreters() {
        let (session, queue) = (interpreter.session(), Arc::clone(&queue));
        session.run(MODEL, "model.py")?; // an error in the model's code ends the program here
        thread::spawn(move || work(&session, &queue).expect("the model's code has run before"));
    }
    Ok(Router::new().route("/predict", post(predict)).with_state(sender))
}

type Refusal = (StatusCode, String);

async fn predict(
    State(queue): State<SyncSender<Request>>,
    Json(features): Json<Vec<f64>>,
) -> Result<([(&'static str, String); 1], Json<f64>), Refusal> {
    let (answer, answered) = oneshot::channel();
    let refused = |_| (StatusCode::SERVICE_UNAVAILABLE, "too many requests wait".to_owned());
    queue.try_send(Request { features, answer }).map_err(refused)?;
    let failed = |error| (StatusCode::INTERNAL_SERVER_ERROR, error);
    let answered = answered.await.map_err(|_| failed("no interpreter is left".to_owned()))?;
    let Answer { score, batch } = answered.map_err(failed)?;
    Ok(([("x-batch", batch.to_string())], Json(score)))
}

/// Answers batches until the service is gone.
fn work(session: &Session, queue: &Mutex<Receiver<Request>>) -> hydrozoa::Result<()> {
    let predict = session.run(MODEL, "model.py")?.getattr("predict")?;
    while let Some(requests) = batch(queue) {
        let batch = requests.len();
        let (inputs, answers): (Vec<_>, Vec<_>) =
            requests.into_iter().map(|request| (request.features, request.answer)).unzip();
        let scores = predict.call((inputs,)).and_then(|scores| scores.extract::<Vec<f64>>());
        for (index, answer) in answers.into_iter().enumerate() {
            let score = match &scores {
                Ok(scores) => {
                    scores.get(index).copied().ok_or("the model gave too few scores".to_owned())
                }
                Err(error) => Err(error.to_string()),
            };
            let _ = answer.send(score.map(|score| Answer { score, batch })); // a client may be gone
        }
    }
    Ok(())
}

/// The next requests. Only the thread that collects has the queue; others collect while it calls Python.
fn batch(queue: &Mutex<Receiver<Request>>) -> Option<Vec<Request>> {
    let queue = queue.lock().expect("no thread panics with the queue");
    let mut requests = vec![queue.recv().ok()?];
    let end = Instant::now() + PATIENCE;
    while requests.len() < LARGEST {
        match queue.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(request) => requests.push(request),
            Err(_) => break,
        }
    }
    Some(requests)
}
