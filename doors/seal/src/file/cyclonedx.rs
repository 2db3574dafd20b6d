//! All that is inside, as a bill of materials: CycloneDX 1.5 in JSON (<https://cyclonedx.org/docs/1.5/json/>).

use serde_json::{Value, json};

use super::description::Distribution;
use super::digest;
use super::licence;
use super::open::Sealed;
use super::sizes::normalized;
use crate::member::Kind;

impl Sealed {
    /// A bill of materials: the executable, Python, the installed packages and the libraries. The same file has the same
    /// bill, which names no time.
    pub fn cyclonedx(&self) -> String {
        let manifest = &self.manifest;
        let libraries = manifest.members.iter().filter(|member| member.kind == Kind::Library);
        let libraries = libraries.map(|library| {
            json!({
                "type": "file", "bom-ref": format!("file:{}", library.path), "name": library.path,
                "hashes": hashes(&library.sha256),
            })
        });
        let base = json!({
            "type": "application", "bom-ref": "executable", "name": "the executable that was sealed",
            "hashes": hashes(&manifest.base.sha256),
        });
        let components = [base, self.python_component()].into_iter();
        let components =
            components.chain(manifest.distributions.iter().map(component)).chain(libraries);
        let bill = json!({
            "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "serialNumber": self.serial_number(),
            "metadata": {
                "tools": { "components": [{ "type": "application", "name": manifest.created_by }] },
                "component": { "type": "application", "bom-ref": "application", "name": self.name() },
            },
            "components": components.collect::<Vec<_>>(),
        });
        format!("{bill:#}\n")
    }

    fn python_component(&self) -> Value {
        let version = &self.manifest.python;
        json!({
            "type": "platform", "bom-ref": "python", "name": "CPython", "version": version,
            // Lists of vulnerabilities name it so.
            "cpe": format!("cpe:2.3:a:python:python:{version}:*:*:*:*:*:*:*"),
            "purl": format!("pkg:generic/python@{}", encoded(version)),
        })
    }

    /// An UUID of the file's hash (RFC 9562, version 8).
    fn serial_number(&self) -> String {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.place.sha256[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let digits = digest::hex(&bytes);
        let (a, b, c, d, e) =
            (&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]);
        format!("urn:uuid:{a}-{b}-{c}-{d}-{e}")
    }
}

fn component(distribution: &Distribution) -> Value {
    let Distribution { name, version, license } = distribution;
    let purl = format!("pkg:pypi/{}@{}", encoded(&normalized(name)), encoded(version));
    let mut component = json!({
        "type": "library", "bom-ref": purl, "purl": purl, "name": name, "version": version,
    });
    let license = license.trim();
    if licence::is_expression(license) {
        component["licenses"] = json!([{ "expression": license }]);
    } else if let Some(line) = license.lines().next() {
        component["licenses"] = json!([{ "license": { "name": line } }]);
    }
    component
}

fn hashes(sha256: &str) -> Value {
    json!([{ "alg": "SHA-256", "content": sha256 }])
}

/// Text as a part of a package URL: all but letters, digits and `.-_~` is encoded.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::trial;

    #[test]
    fn the_bill_has_the_packages_and_the_libraries() {
        let directory = tempfile::tempdir().unwrap();
        let sealed = Sealed::open(&trial::sealed(directory.path())).unwrap();
        let text = sealed.cyclonedx();
        assert_eq!(text, sealed.cyclonedx());
        let bill: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(bill["specVersion"], "1.5");
        assert_eq!(bill["metadata"]["component"]["name"], "app");
        let serial = bill["serialNumber"].as_str().unwrap();
        assert_eq!((serial.len(), &serial[23..24]), (45, "8"), "{serial}");
        let component = |reference: &str| {
            let components = bill["components"].as_array().unwrap().iter();
            components.clone().find(|one| one["bom-ref"] == reference).unwrap().clone()
        };
        let numpy = component("pkg:pypi/numpy@2.0");
        assert_eq!(numpy["name"], "Numpy");
        assert_eq!(numpy["licenses"][0]["expression"], "BSD-3-Clause AND MIT");
        let other = component("pkg:pypi/other-one@1");
        assert_eq!(other["licenses"][0]["license"]["name"], "as you like it");
        assert_eq!(component("python")["version"], "3.12.8");
        let library = component("file:lib/libtrial.so");
        let bytes = std::fs::read(directory.path().join("libtrial.so")).unwrap();
        assert_eq!(library["hashes"][0]["content"], digest::of_bytes(&bytes));
        let base = std::fs::read(directory.path().join("base")).unwrap();
        assert_eq!(component("executable")["hashes"][0]["content"], digest::of_bytes(&base));
    }

    #[test]
    fn local_versions_are_encoded() {
        assert_eq!(encoded("2.11.0+cpu"), "2.11.0%2Bcpu");
    }
}
