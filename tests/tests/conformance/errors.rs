//! A damaged package is an error that names it, and nothing else is damaged.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use hydrozoa::Error;
use hydrozoa_tests::place;
use hydrozoa_tests::survivors::with_survivors;

pub fn corrupt_package() -> Result<()> {
    let folder = place::scratch("corrupt")?;
    let whole = fs::read(place::models()?.join("mobilenet_v3_small.pt"))?;
    let broken: [(&str, Vec<u8>); 4] = [
        ("empty", Vec::new()),
        ("cut", whole[..whole.len() / 2].to_vec()),
        ("headless", whole[4096..].to_vec()),
        ("text", b"this is no archive".repeat(1000)),
    ];
    with_survivors(|pool, _| {
        for (name, bytes) in &broken {
            let path = folder.path().join(format!("{name}.pt"));
            fs::write(&path, bytes)?;
            match pool
                .load_package(&path)
                .and_then(|package| package.load_pickle("model", "model.pkl"))
            {
                Err(error @ Error::Package(_))
                    if error.to_string().contains(&format!("{name}.pt")) => {}
                Err(error) => bail!("{name}: {error:?}"),
                Ok(_) => bail!("{name}: no error"),
            }
        }
        // The archive is whole. The pickle in it is not.
        let mut changed = whole.clone();
        let place = find(&changed, b"torchvision.models.mobilenetv3")
            .context("the pickle names its module")?;
        changed[place + 4] ^= 0x20;
        let path = folder.path().join("changed.pt");
        fs::write(&path, &changed)?;
        match pool.load_package(&path).and_then(|package| package.load_pickle("model", "model.pkl"))
        {
            Err(error) => println!("changed.pt: {error}"),
            Ok(_) => bail!("a damaged pickle was loaded"),
        }
        let absent = pool
            .load_package(place::models()?.join("mobilenet_v3_small.pt"))?
            .load_pickle("model", "absent.pkl");
        ensure!(matches!(&absent, Err(Error::Package(_))), "{absent:?}");
        Ok(())
    })
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
