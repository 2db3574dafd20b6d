//! Recording the imports that serving a package needs.

use super::{EXAMPLE, OBJECT};
use crate::Result;
use crate::convert::tensor::Tensor;
use crate::imports::ImportProfile;
use crate::package::Package;
use crate::pool::Pool;
use std::path::Path;

/// The module of the payload with Python's part of it.
const MODULE: &str = "_hydrozoa.serving";

impl Pool {
    /// Which modules interpreters of this pool's settings import to serve a package.
    pub(super) fn record(&self, file: &Path) -> Result<ImportProfile> {
        self.record_imports(
            |pool| serve(pool, file),
            |pool, package| {
                let session = pool.acquire()?;
                let digest = session.import(MODULE)?.call_method("digest", ())?.extract::<String>();
                drop(package);
                digest
            },
        )
    }
}

/// Does what a server does: loads the object, passes tensors in and out, and calls it. The package stays, since the output may be of
/// its classes.
fn serve(pool: &Pool, file: &Path) -> Result<Package> {
    let package = pool.load_package(file)?;
    let object = package.load_pickle(OBJECT.0, OBJECT.1)?;
    let arguments = package.load_pickle(EXAMPLE.0, EXAMPLE.1)?;
    let session = pool.acquire()?;
    let serving = session.import(MODULE)?;
    serving.call_method("serve", (object.to_object(&session)?, arguments.to_object(&session)?))?;
    let tensor = Tensor::from_vec(vec![0.0_f32], &[1])?;
    serving.call_method("passed", (&tensor,))?.extract::<Tensor>()?;
    Ok(package)
}
