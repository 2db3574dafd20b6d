//! Inputs and outputs in memory that client and server share, over HTTP.

mod common;

use common::shared_object::SharedObject;
use common::{Answer, ECHO, FLOATS, Site};
use hydrozoa_server::http::Limits;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn site() -> Site {
    let site = Site::with(Limits::default(), |settings| settings.client_shared_memory = true);
    site.model("m", FLOATS, ECHO);
    site
}

fn register(site: &Site, name: &str, key: &str, offset: Value, size: Value) -> Answer {
    let body = json!({ "key": key, "offset": offset, "byte_size": size });
    site.post(&format!("/v2/systemsharedmemory/region/{name}/register"), body.to_string())
}

/// Parameters that name a part of a region.
fn part(region: &str, offset: u64, size: u64) -> Value {
    json!({
        "shared_memory_region": region,
        "shared_memory_offset": offset,
        "shared_memory_byte_size": size,
    })
}

/// A request whose input of so many floats is in shared memory, and whose output goes there.
fn request(count: u64, input: &Value, output: &Value) -> String {
    let input =
        json!({ "name": "IN", "datatype": "FP32", "shape": [1, count], "parameters": input });
    let output = json!({ "name": "OUT", "parameters": output });
    json!({ "inputs": [input], "outputs": [output] }).to_string()
}

const INFER: &str = "/v2/models/m/infer";

#[test]
fn inputs_and_outputs_may_be_in_shared_memory() {
    let site = site();
    let extensions = site.get("/v2").ok()["extensions"].clone();
    assert!(extensions.as_array().unwrap().contains(&json!("system_shared_memory")));
    let object = SharedObject::new("both", 4096);
    object.write(100, &[1.5, -2.0]);
    register(&site, "in", &object.key, json!(92), json!(16)).ok_empty();
    register(&site, "out", &object.key, json!(200), json!(64)).ok_empty();
    let expected = json!([
        { "name": "in", "key": object.key, "offset": 92, "byte_size": 16 },
        { "name": "out", "key": object.key, "offset": 200, "byte_size": 64 },
    ]);
    assert_eq!(site.get("/v2/systemsharedmemory/status").ok(), expected);
    let one = site.get("/v2/systemsharedmemory/region/out/status").ok();
    assert_eq!(one, json!([expected[1]]));

    let both = request(2, &part("in", 8, 8), &part("out", 16, 40));
    let answer = site.post(INFER, &both);
    let output = json!({ "name": "OUT", "datatype": "FP32", "shape": [1, 2] });
    assert_eq!(answer.ok()["outputs"], json!([output]));
    assert_eq!(object.read(216, 2), [1.5, -2.0]);
    assert_eq!(object.read(224, 8), [0.0; 8], "nothing else is written");
    // The one or the other.
    let answer = site.post(INFER, request(2, &part("in", 8, 8), &json!({}))).ok();
    assert_eq!(answer["outputs"][0]["data"], json!([1.5, -2.0]));

    // Megabytes are copied by a thread for such work.
    let count = 1 << 20;
    let large = SharedObject::new("large", 8 << 20);
    let values: Vec<f32> = (0..count).map(|number| number as f32).collect();
    large.write(0, &values);
    register(&site, "large", &large.key, json!(0), json!(8 << 20)).ok_empty();
    let size = 4 << 20;
    site.post(INFER, request(count, &part("large", 0, size), &part("large", size, size))).ok();
    assert_eq!(large.read(size, values.len()), values);

    // The region is kept though its object has no name any more.
    drop(std::fs::remove_file(SharedObject::path(&object.key)));
    site.post(INFER, &both).ok();
    let unregister =
        |path: &str| site.post(&format!("/v2/systemsharedmemory/{path}unregister"), "");
    unregister("region/in/").ok_empty();
    unregister("region/in/").ok_empty();
    let message = site.post(INFER, &both).error(404);
    assert_eq!(message, "Unable to find shared memory region: 'in'");
    unregister("").ok_empty();
    assert_eq!(site.get("/v2/systemsharedmemory/status").ok(), json!([]));
    let message = site.get("/v2/systemsharedmemory/region/out/status").error(404);
    assert_eq!(message, "Unable to find system shared memory region: 'out'");
}

#[test]
fn regions_that_make_no_sense_are_refused_in_tritons_words() {
    let site = site();
    let object = SharedObject::new("wrong", 64);
    let link = SharedObject::new("link", 0);
    std::fs::remove_file(SharedObject::path(&link.key)).unwrap();
    std::os::unix::fs::symlink(SharedObject::path(&object.key), SharedObject::path(&link.key))
        .unwrap();
    register(&site, "r", &object.key, json!(16), json!(32)).ok_empty();
    let message = register(&site, "r", &object.key, json!(0), json!(8)).error(400);
    assert!(message.contains("shared memory region 'r' already in manager"), "{message}");
    let invalid = "failed to register shared memory region 'n': invalid args";
    for (offset, size, words) in [
        (json!(0), json!(65), invalid),
        (json!(57), json!(8), invalid),
        (json!(8), json!(u64::MAX), invalid),
        (json!(u64::MAX), json!(1), invalid),
        (json!(0), json!(0), invalid),
        (json!(-1), json!(8), "Unable to parse 'offset'"),
        (json!(0), json!("8"), "Unable to parse 'byte_size'"),
        (json!(0), json!(null), "Unable to parse 'byte_size'"),
    ] {
        let message = register(&site, "n", &object.key, offset, size).error(400);
        assert!(message.contains(words), "{message}");
    }
    let reserved = "as the key contains the reserved prefix 'triton_python_backend_shm_region_'";
    for (key, words) in [
        ("/no_such_object_of_hydrozoa", "Unable to open shared memory region: '/no_such"),
        (&link.key, "Unable to open shared memory region"),
        (".", "cannot register shared memory region 'n' - invalid shm key '.'"),
        ("///", "cannot register shared memory region 'n' - invalid shm key '///'"),
        ("/../etc/passwd", "invalid shm key '/../etc/passwd'"),
        ("a\0b", "invalid shm key"),
        (&"x".repeat(300), "Unable to open shared memory region"),
        ("/triton_python_backend_shm_region_1", reserved),
    ] {
        let message = register(&site, "n", key, json!(0), json!(8)).error(400);
        assert!(message.contains(words), "{message}");
    }
    bodies_that_make_no_sense_are_refused(&site);
}

fn bodies_that_make_no_sense_are_refused(site: &Site) {
    let register = "/v2/systemsharedmemory/region/n/register";
    for (body, words) in [
        ("", "Shared memory register request has no 'key' field"),
        ("{\"key\":\"k\"}", "Shared memory register request has no 'byte_size' field"),
        ("[]", "failed to parse the request JSON buffer"),
    ] {
        let message = site.post(register, body).error(400);
        assert!(message.contains(words), "{message}");
    }
    let message = site.post("/v2/systemsharedmemory/register", "{\"key\":\"k\",\"byte_size\":1}");
    assert!(message.error(400).starts_with("'region name' is necessary"));
}

#[test]
fn tensors_that_do_not_fit_shared_memory_are_refused_in_tritons_words() {
    let site = site();
    let object = SharedObject::new("small", 64);
    register(&site, "r", &object.key, json!(16), json!(32)).ok_empty();
    let right = part("r", 0, 8);
    for (input, output, words) in [
        (part("r", 32, 0), json!({}), "Invalid offset for shared memory region: 'r'"),
        (part("r", 25, 8), json!({}), "Invalid offset + byte size for shared memory region: 'r'"),
        (part("r", 8, u64::MAX), json!({}), "Invalid offset + byte size for shared memory region"),
        (part("r", 0, 4), json!({}), "input byte size mismatch for input 'IN'"),
        (right.clone(), part("r", 8, 33), "Invalid offset + byte size for shared memory region"),
        (
            right.clone(),
            part("r", 0, 7),
            "shared memory size specified with the request for output 'OUT' (7 bytes) should be at least 8 bytes to hold \
             the results",
        ),
        (
            right.clone(),
            merged(&right, "binary_data", json!(true)),
            "Output can't set both 'shared_memory_region' and 'binary_data'",
        ),
        (
            right.clone(),
            merged(&right, "classification", json!(1)),
            "Output can't set both 'shared_memory_region' and 'classification'",
        ),
        (
            merged(&right, "binary_data_size", json!(8)),
            json!({}),
            "But set 'binary_data_size' 'shared_memory_region'",
        ),
    ] {
        let message = site.post(INFER, request(2, &input, &output)).error(400);
        assert!(message.contains(words), "{message}");
    }
    let message = site.post(INFER, request(2, &part("n", 0, 8), &json!({}))).error(404);
    assert_eq!(message, "Unable to find shared memory region: 'n'");
    let message = site.post("/v2/cudasharedmemory/region/c/register", "{}").error(400);
    assert!(message.ends_with("'c', GPUs not supported"), "{message}");
    site.post("/v2/cudasharedmemory/unregister", "").ok_empty();
}

fn merged(parameters: &Value, name: &str, value: Value) -> Value {
    let mut all = parameters.clone();
    all[name] = value;
    all
}

#[test]
fn there_are_as_many_regions_and_bytes_as_there_may_be() {
    let mut limits = Limits::default();
    limits.max_input_size = 1000;
    let site = Site::with(limits, |settings| settings.client_shared_memory = true);
    site.model("m", FLOATS, ECHO);
    let object = SharedObject::new("many", 1 << 40);
    register(&site, "all", &object.key, json!(0), json!(1u64 << 40)).ok_empty();
    let message =
        site.post(INFER, request(1 << 38, &part("all", 0, 1 << 40), &json!({}))).error(400);
    assert!(message.contains("have 1099511627776 bytes; the server takes 1000 bytes"), "{message}");
    for number in 1..512 {
        register(&site, &format!("r{number}"), &object.key, json!(0), json!(8)).ok_empty();
    }
    let message = register(&site, "more", &object.key, json!(0), json!(8)).error(503);
    assert!(message.contains("there are 512, as many as there may be"), "{message}");
}

#[test]
fn a_region_that_its_client_truncates_is_an_error_of_its_requests() {
    let site = site();
    const SIZE: u64 = 1 << 20;
    let object = SharedObject::new("cut", 2 * SIZE);
    register(&site, "r", &object.key, json!(0), json!(2 * SIZE)).ok_empty();
    let both = request(SIZE / 4, &part("r", 0, SIZE), &part("r", SIZE, SIZE));
    let inputs = request(SIZE / 4, &part("r", 0, SIZE), &json!({}));
    site.post(INFER, &both).ok();
    object.file.set_len(SIZE).unwrap();
    let message = site.post(INFER, &both).error(400);
    assert!(message.contains("'r' has changed since it was registered"), "{message}");
    assert_eq!(object.file.metadata().unwrap().len(), SIZE, "the server has made it longer");
    object.file.set_len(10).unwrap();
    let message = site.post(INFER, &inputs).error(400);
    assert!(message.contains("it is beyond the end of"), "{message}");

    // While requests are under way.
    let is_over = AtomicBool::new(false);
    let (mut served, mut refused) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for size in [0, 10, SIZE, SIZE + 4096, 2 * SIZE, 2 * SIZE] {
                    object.file.set_len(size).unwrap();
                    thread::sleep(Duration::from_micros(300));
                }
            }
        });
        let end = Instant::now() + common::PATIENCE;
        while (served < 10 || refused < 10) && Instant::now() < end {
            match site.post(INFER, &both) {
                Answer { status: 200, .. } => served += 1,
                answer => {
                    let message = answer.error(400);
                    assert!(message.contains("has changed"), "{message}");
                    refused += 1;
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(served >= 10 && refused >= 10, "{served} served, {refused} refused");
    object.file.set_len(2 * SIZE).unwrap();
    object.write(0, &[7.0]);
    site.post(INFER, &both).ok();
    assert_eq!(object.read(SIZE, 1), [7.0]);
}

#[test]
fn nobody_shares_memory_with_a_server_that_was_not_told_to() {
    let site = Site::new();
    site.model("m", FLOATS, ECHO);
    let object = SharedObject::new("off", 64);
    let message = register(&site, "r", &object.key, json!(0), json!(8)).error(501);
    assert_eq!(message, "Client shared memory is disabled.");
    let message = site.post("/v2/systemsharedmemory/unregister", "").error(501);
    assert_eq!(message, "Client shared memory is disabled.");
    assert_eq!(site.get("/v2/systemsharedmemory/status").ok(), json!([]));
    let message = site.post(INFER, request(2, &part("r", 0, 8), &json!({}))).error(404);
    assert_eq!(message, "Unable to find shared memory region: 'r'");
}
