use serde_json::json;

use super::*;

fn es256() -> SigningKey {
    SigningKey::from_pem(rcgen::KeyPair::generate().unwrap().serialize_pem().as_bytes()).unwrap()
}

#[test]
fn signs_and_verifies() {
    let (key, other) = (es256(), es256());
    let claims = json!({"iss": "https://x", "sub": "system:serviceaccount:a:b"});
    let token = key.sign(&claims).unwrap();
    let keys = [other.public().clone(), key.public().clone()];
    assert_eq!(verify(&token, &keys).unwrap(), claims);
    assert_eq!(unverified_claims(&token).unwrap(), claims);
    assert_eq!(verify(&token, &keys[..1]), Err(TokenError::UnknownKey));
}

#[test]
fn a_changed_token_is_refused() {
    let key = es256();
    let token = key.sign(&json!({"sub": "a"})).unwrap();
    let keys = [key.public().clone()];
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (header, _) = signed.split_once('.').unwrap();
    let forged = format!("{header}.{}.{signature}", encode(json!({"sub": "b"}).to_string()));
    assert_eq!(verify(&forged, &keys), Err(TokenError::Signature));
    let none = encode(json!({"alg": "none", "kid": key.public().id()}).to_string());
    assert_eq!(verify(&format!("{none}.{}.", encode("{}")), &keys), Err(TokenError::Signature));
    assert_eq!(verify("a.b", &keys), Err(TokenError::Malformed));
    assert!(unverified_claims("opaque").is_none());
}

#[test]
fn a_public_key_file_has_the_id_of_its_private_key() {
    let pair = rcgen::KeyPair::generate().unwrap();
    let private = SigningKey::from_pem(pair.serialize_pem().as_bytes()).unwrap();
    let public = PublicKey::all_from_pem(pair.public_key_pem().as_bytes());
    assert_eq!(public, [private.public().clone()]);
    let jwk = private.public().to_jwk();
    assert_eq!(jwk["kty"], "EC");
    assert_eq!(jwk["x"].as_str().unwrap().len(), 43);
}

/// Made with `openssl genrsa -traditional 2048`; what kubeadm and upstream's tests write.
#[test]
fn rsa_keys_in_both_forms() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let openssl = |args: &[&str]| {
        let output = copepod_sys::command("openssl").args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    openssl(&["genrsa", "-traditional", "-out", &path("pkcs1"), "2048"]);
    openssl(&["rsa", "-in", &path("pkcs1"), "-out", &path("pkcs8")]);
    openssl(&["rsa", "-in", &path("pkcs1"), "-pubout", "-out", &path("pub")]);
    openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", &path("sec1")]);
    let keys = load_public_keys(&[path("pub"), path("sec1")]).unwrap();
    assert_eq!(keys.len(), 2);
    for file in ["pkcs1", "pkcs8", "sec1"] {
        let token = SigningKey::load(Path::new(&path(file))).unwrap().sign(&json!({"a": 1})).unwrap();
        assert_eq!(verify(&token, &keys).unwrap(), json!({"a": 1}), "{file}");
    }
    assert_eq!(keys[0].to_jwk()["e"], "AQAB");
    assert!(matches!(SigningKey::load(Path::new(&path("pub"))), Err(TokenKeyError::NoKey { .. })));
}
