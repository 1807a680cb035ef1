//! Goal: what cannot be opened says why, and nothing shows a secret. Method: URLs that are none,
//! with secrets in them; no request is made.

use super::CloudStores;

#[test]
fn a_url_with_more_than_a_place_is_refused() {
    let urls = [
        "s3://",
        "s3://bucket//a",
        "s3://key:secret@bucket",
        "gs://bucket?token=secret",
        "az://../a",
    ];
    for url in urls {
        let error = CloudStores::default().open(url).unwrap_err();
        assert_eq!(error.source.kind(), std::io::ErrorKind::InvalidInput, "{url}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
}
