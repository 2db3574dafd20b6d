//! Repositories of models, as Triton and MLServer read them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::faults::{CONFIGURATION, FAULTS};
use super::system::{Installed, Parameter, Served};

/// Inputs and outputs of a model, as `case.json` describes them.
fn tensors(folder: &Path, model: &str) -> Result<Value> {
    let path = folder.join("cases").join(model).join("case.json");
    let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// The names of so many models.
pub fn names(served: Served<'_>) -> Vec<String> {
    match served.models {
        1 => vec![served.model.to_owned()],
        many => (1..=many).map(|number| format!("{}-{number}", served.model)).collect(),
    }
}

/// Triton's: a folder with a configuration for each model, and `1/model.py`.
pub fn triton(
    to: &Path,
    served: Served<'_>,
    backend: &str,
    folder: &Path,
    further: &[Parameter],
) -> Result<()> {
    let case = tensors(folder, served.model)?;
    let kind = |key: &str| match case[key].as_str() {
        Some("BYTES") => "TYPE_STRING".to_owned(),
        other => format!("TYPE_{}", other.unwrap_or_default()),
    };
    let scripts = Installed::scripts();
    let mut config = format!("backend: {backend:?}\nmax_batch_size: 0\n");
    for (field, name, key) in [("input", "IN", "input"), ("output", "OUT", "output")] {
        let (kind, dims) = (kind(&format!("{key}_type")), &case[format!("{key}_shape")]);
        config.push_str(&format!("{field} {{ name: {name:?} data_type: {kind} dims: {dims} }}\n"));
    }
    config.push_str(&format!("instance_group {{ kind: KIND_CPU count: {} }}\n", served.instances));
    let parameters =
        [("scripts", scripts.as_path()), ("folder", folder), ("model", Path::new(served.model))];
    let mut all = further.to_vec();
    for (key, value) in parameters {
        let value = value.to_str().context("a path is UTF-8")?.to_owned();
        all.push(Parameter { key: key.to_owned(), value });
    }
    for Parameter { key, value } in all {
        config.push_str(&format!(
            "parameters {{ key: {key:?} value {{ string_value: {value:?} }} }}\n"
        ));
    }
    for name in names(served) {
        let place = to.join(name);
        fs::create_dir_all(place.join("1")).context("making a model's folder")?;
        fs::copy(scripts.join("triton_model.py"), place.join("1/model.py"))
            .context("copying a model")?;
        fs::write(place.join("config.pbtxt"), &config).context("writing a configuration")?;
    }
    Ok(())
}

/// The faulty models, beside others.
pub fn faults(to: &Path) -> Result<()> {
    for (name, _) in FAULTS {
        let place = to.join(name);
        fs::create_dir_all(place.join("1")).context("making a model's folder")?;
        fs::copy(Installed::scripts().join(format!("faults/{name}.py")), place.join("1/model.py"))
            .with_context(|| format!("copying {name}"))?;
        fs::write(place.join("config.pbtxt"), CONFIGURATION).context("writing a configuration")?;
    }
    Ok(())
}

/// MLServer's: its settings, and a folder with settings for each model.
pub fn mlserver(to: &Path, served: Served<'_>, settings: &Value, folder: &Path) -> Result<()> {
    fs::create_dir_all(to).context("making a repository")?;
    fs::write(to.join("settings.json"), settings.to_string()).context("writing settings")?;
    for name in names(served) {
        let place = to.join(&name);
        fs::create_dir_all(&place).context("making a model's folder")?;
        let model = json!({
            "name": name, "implementation": "mlserver_runtime.Runtime",
            "parameters": {"extra": {"model": served.model, "folder": folder}},
        });
        fs::write(place.join("model-settings.json"), model.to_string())
            .context("writing settings")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_has_as_many_models_as_are_served() {
        let scratch = tempfile::tempdir().expect("a folder");
        let cases = scratch.path().join("cases/text");
        fs::create_dir_all(&cases).expect("a folder");
        let case = json!({
            "count": 1, "input_type": "BYTES", "input_shape": [4],
            "output_type": "FP32", "output_shape": [4, 128],
        });
        fs::write(cases.join("case.json"), case.to_string()).expect("a file");
        let models = scratch.path().join("models");
        let served = Served { model: "text", models: 2, instances: 3 };
        let further = ["HYDROZOA_INPUTS=lent".parse().expect("a parameter")];
        triton(&models, served, "python", scratch.path(), &further).expect("a repository");
        for name in ["text-1", "text-2"] {
            let config = fs::read_to_string(models.join(name).join("config.pbtxt")).expect(name);
            let input = "input { name: \"IN\" data_type: TYPE_STRING dims: [4] }\n";
            let output = "output { name: \"OUT\" data_type: TYPE_FP32 dims: [4,128] }\n";
            assert!(config.contains(input) && config.contains(output), "{config}");
            assert!(config.contains("count: 3 }"), "{config}");
            let parameter = "key: \"HYDROZOA_INPUTS\" value { string_value: \"lent\" }";
            assert!(config.contains(parameter), "{config}");
            assert!(models.join(name).join("1/model.py").exists());
        }
        assert_eq!(names(Served { models: 1, ..served }), ["text"]);
    }
}
