//! The signature that a package carries.

use super::Recipe;
use crate::object::Object;
use crate::package::signature::{Signature, describing};
use crate::session::Session;
use crate::{Error, Result};

/// The signature that the call of a build shows. A text instead says why a server cannot make requests of it; that is an error
/// only if the recipe names a batch or free extents.
pub(super) fn describe(
    session: &Session,
    recipe: &Recipe,
    object: &Object<'_>,
    arguments: &Object<'_>,
    result: &Object<'_>,
) -> Result<std::result::Result<Signature, String>> {
    let is_wanted = recipe.max_batch_size > 0 || !recipe.free.is_empty();
    let refused = |problem: String| {
        Error::Configuration(format!("{}: its call cannot be described: {problem}", recipe.target))
    };
    let mut signature = match Signature::of_call(session, object, arguments, result) {
        Ok(signature) => signature,
        Err(Error::Python { message, .. }) if !is_wanted => return Ok(Err(message)),
        Err(Error::Python { message, .. }) => return Err(refused(message)),
        Err(error) => return Err(error),
    };
    if recipe.max_batch_size > 0 {
        if recipe.max_batch_size > 1 {
            try_larger(session, object, arguments, &signature).map_err(|error| match error {
                Error::Python { type_name, message, .. } => {
                    refused(format!("with a larger batch it raises {type_name}: {message}"))
                }
                Error::Configuration(problem) => refused(problem),
                other => other,
            })?;
        }
        signature = signature.with_batches(recipe.max_batch_size).map_err(refused)?;
    }
    for (name, place) in &recipe.free {
        signature = signature.with_free(name, *place).map_err(refused)?;
    }
    Ok(Ok(signature))
}

/// Calls the object with a batch of twice the example's size. Each output must have twice the first extent, and the others as before.
fn try_larger(
    session: &Session,
    object: &Object<'_>,
    arguments: &Object<'_>,
    signature: &Signature,
) -> Result<()> {
    let module = describing(session)?;
    let places: Vec<usize> = signature.inputs.iter().map(|(place, _)| *place).collect();
    let doubled = module.call_method("twice", (arguments, places))?;
    let result = session.import("_hydrozoa.exporting")?.call_method("call", (object, &doubled))?;
    let found = Signature::of_call(session, object, &doubled, &result)?;
    for (one, other) in signature.outputs.iter().zip(&found.outputs) {
        let mut expected = one.shape.clone();
        if let Some(first) = expected.first_mut() {
            *first = first.map(|extent| extent * 2);
        }
        if other.shape != expected {
            return Err(Error::Configuration(format!(
                "with a batch of twice the size, `{one}` becomes `{other}`: only its first extent may change, to twice as much"
            )));
        }
    }
    Ok(())
}
