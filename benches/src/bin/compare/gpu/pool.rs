//! Our side: a pool whose interpreters use a model on the device.

use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, ensure};
use hydrozoa::{Movable, Object, Pool, Session};
use hydrozoa_measure::contender::Order;
use hydrozoa_measure::orders;
use hydrozoa_measure::package::{EXAMPLE, MODEL};
use hydrozoa_measure::samples::Samples;
use serde::{Deserialize, Serialize};

use super::{Model, Options, SCRIPT};

/// The encoder's model and input, which all interpreters have in common.
type Common = Option<(Movable, Movable)>;

/// Calls before a contender is ready.
const WARM: usize = 10;

/// A pool whose interpreters use a model on the device.
#[derive(Serialize, Deserialize)]
pub struct GpuPool {
    venv: Option<PathBuf>,
    python: Option<PathBuf>,
    device: String,
    model: Model,
    interpreters: usize,
    /// Replace an interpreter, instead of calls.
    pub is_replacing: bool,
    /// Where the models and the script are.
    folder: PathBuf,
}

impl GpuPool {
    pub fn new(options: &Options, folder: &Path, model: Model, interpreters: usize) -> Self {
        let Options { venv, python, device, .. } = options.clone();
        Self {
            venv,
            python,
            device,
            model,
            interpreters,
            is_replacing: false,
            folder: folder.to_owned(),
        }
    }

    pub fn run(&self) -> Result<()> {
        let pool = self.pool()?;
        if self.is_replacing {
            return orders::answer(|order| {
                let Order::Replace { times } = order else { return orders::refuse(&order) };
                (0..times).try_for_each(|_| self.replace(&pool))?;
                Ok(Samples::default())
            });
        }
        let common = self.common(&pool)?;
        let sessions: Vec<Session> =
            (0..self.interpreters).map(|index| pool.acquire_on(index)).collect::<Result<_, _>>()?;
        // Each import of torch takes seconds.
        thread::scope(|scope| {
            let threads: Vec<_> = sessions
                .iter()
                .map(|session| scope.spawn(move || session.import("torch").map(drop)))
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        let mut callers = Vec::new();
        let mut addresses = Vec::new();
        for (number, session) in sessions.iter().enumerate() {
            callers.push(self.caller(session, &common)?);
            let script = session.run(SCRIPT, "gpu.py")?;
            if let Some((model, _)) = &common {
                let object = model.to_object(session)?;
                addresses
                    .push(script.getattr("addresses")?.call((&object,))?.extract::<Vec<u64>>()?);
            }
            let arguments = (self.folder()?, self.device.as_str(), number as i64);
            script.getattr("note_memory")?.call(arguments)?;
        }
        ensure!(
            addresses.iter().all(|weights| *weights == addresses[0]),
            "the model was uploaded more than once: its weights have other addresses in other interpreters"
        );
        orders::answer_calls(|_, thread| {
            let caller = &callers[thread];
            Ok(move |_| Ok(caller.call(())?.truth()?))
        })
    }

    /// Has another interpreter take the first one's place, and use the model.
    fn replace(&self, pool: &Pool) -> Result<()> {
        pool.replace(0)?;
        let session = pool.acquire_on(0)?;
        self.caller(&session, &self.common(pool)?).map(drop)
    }

    fn common(&self, pool: &Pool) -> Result<Common> {
        Ok(match self.model {
            Model::Decoder => None,
            Model::Encoder => {
                let package = pool.load_package(self.folder.join("encoder.pt"))?;
                Some((
                    package.load_pickle_mapped(MODEL.0, MODEL.1, self.device.as_str())?,
                    package.load_pickle_mapped(EXAMPLE.0, EXAMPLE.1, "cpu")?,
                ))
            }
        })
    }

    /// A caller that has given right answers.
    fn caller<'s>(&self, session: &'s Session, common: &Common) -> Result<Object<'s>> {
        let script = session.run(SCRIPT, "gpu.py")?;
        session.import("torch")?.call_method("set_num_threads", (1,))?;
        let (name, folder, device) = (self.model.name(), self.folder()?, self.device.as_str());
        let make = script.getattr("caller")?;
        let caller = match common {
            None => make.call((name, folder, device))?,
            Some((object, example)) => {
                let [object, example] = [object.to_object(session)?, example.to_object(session)?];
                make.call((name, folder, device, object, example))?
            }
        };
        for _ in 0..WARM {
            ensure!(
                caller.call(())?.truth()?,
                "the output differs from plain python's on the device"
            );
        }
        Ok(caller)
    }

    fn folder(&self) -> Result<&str> {
        self.folder.to_str().context("a folder in UTF-8")
    }

    fn pool(&self) -> Result<Pool> {
        let mut builder = Pool::builder().interpreters(self.interpreters);
        if let Some(venv) = &self.venv {
            builder = builder.venv(venv);
        }
        if let Some(python) = &self.python {
            builder = builder.python(python);
        }
        Ok(builder.build()?)
    }
}
