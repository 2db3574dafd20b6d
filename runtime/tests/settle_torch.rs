//! Settled interpreters with torch: outputs, memory and speed.

mod common;

use common::venv;
use hydrozoa::memory::Usage;
use hydrozoa::{Object, Pool, Session};
use hydrozoa_testkit::alone::alone;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const MODEL: &str = "
import sys, torch, torchvision
torch.set_num_threads(1)
torch.manual_seed(1)
model = torchvision.models.mobilenet_v3_small(weights=None).eval()
image = torch.rand(1, 3, 224, 224)
def call():
    with torch.inference_mode():
        return model(image).double().sum().item().hex()
def train():
    copy = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    with torch.no_grad():
        for parameter in copy.parameters(): parameter.fill_(0.25)
    optimiser = torch.optim.SGD(copy.parameters(), lr=0.01)
    for _ in range(3):
        optimiser.zero_grad()
        copy(torch.ones(4, 8)).square().sum().backward()
        optimiser.step()
    with torch.no_grad(): return float(sum(parameter.sum() for parameter in copy.parameters())).hex()
sys.modules['kept'] = sys.modules['torchvision'].kept = type(sys)('kept')
sys.modules['kept'].call, sys.modules['kept'].train = call, train
";

fn private() -> i64 {
    Usage::of_process().unwrap().private
}

fn text(session: &Session, name: &str) -> String {
    let kept = session.import("kept").unwrap();
    kept.call_method(name, ()).unwrap().extract().unwrap()
}

fn calls(session: &Session, count: usize) -> Duration {
    let call: Object<'_> = session.import("kept").unwrap().getattr("call").unwrap();
    let begin = Instant::now();
    for _ in 0..count {
        call.call(()).unwrap();
    }
    begin.elapsed()
}

fn mib(bytes: i64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// `HYDROZOA_TEST_CALLS` sets the number of calls.
#[test]
fn a_settled_interpreter_with_torch_computes_the_same_bits_in_a_fraction_of_the_memory() {
    alone(Duration::from_secs(600), || {
        let count: usize =
            std::env::var("HYDROZOA_TEST_CALLS").map_or(100, |text| text.parse().unwrap());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("settle");
        fs::create_dir_all(&directory).unwrap();
        let builder = Pool::builder().venv(venv()).settle_in(&directory);
        let pool = builder.interpreters(1).build().unwrap();
        let warm = |index| {
            let session = pool.acquire_on(index).unwrap();
            session.run(MODEL, "model.py").unwrap();
            let found = [text(&session, "call"), text(&session, "train")];
            calls(&session, 10);
            found
        };
        let expected = warm(0);
        let before = private();
        pool.resize(2).unwrap();
        assert_eq!(warm(1), expected);
        let further = private() - before;
        let [one, other] = [0, 1].map(|index| pool.acquire_on(index).unwrap());
        let ratio = || {
            let mut ratios: Vec<f64> =
                (0..7).map(|_| calls(&one, 30).div_duration_f64(calls(&other, 30))).collect();
            ratios.sort_unstable_by(f64::total_cmp);
            ratios[3]
        };
        let speed = ratio();
        let unsettled = private();
        let settled = pool.interpreters()[1].settle(&directory).unwrap();
        let after = private();
        println!("{settled:?}");
        let left = |now: i64| mib(further - (unsettled - now));
        println!("further: {:.1} MiB, settled {:.1}", mib(further), left(after));
        let begin = Instant::now();
        assert_eq!(text(&other, "call"), expected[0]);
        println!("first call: {:.1} MiB, {:?}", left(private()), begin.elapsed());
        calls(&other, count);
        let used = private();
        println!("{count} calls: {:.1} MiB", left(used));
        println!("speed to an unsettled one: {speed:.3} before, {:.3} after", ratio());
        assert_eq!(text(&other, "train"), expected[1]);
        println!("after training: {:.1} MiB", left(private()));
        assert!(settled.anonymous * 40 < settled.memory, "{settled:?}");
        assert!(unsettled - after > 100 << 20, "{unsettled} -> {after}");
        assert!(used - after < 16 << 20, "{after} -> {used}");

        // Everything else of both, too, and an end of one while the other goes on.
        pool.settle().unwrap();
        assert_eq!(warm(1), expected);
        drop((one, other));
        pool.resize(1).unwrap();
        assert_eq!(warm(0), expected);
        // The next one has the addresses.
        pool.resize(2).unwrap();
        assert_eq!(warm(1), expected);
    });
}
