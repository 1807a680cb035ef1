//! The object store for what does not fit on the local disk.

use clap::Args as ClapArgs;
use terrace::CloudOptions;

use crate::args::units::parse_size;

/// The object store for what does not fit on the local disk.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct CloudArgs {
    /// The object store for what does not fit into --local-bytes: s3://BUCKET/PREFIX, gs://…,
    /// az://… or file:///DIR. Credentials are taken from AWS_ACCESS_KEY_ID and the like. The
    /// directory keeps the URL, so that later commands need not be told
    #[arg(long, value_name = "URL", requires = "local_bytes")]
    pub(crate) cloud_url: Option<String>,
    /// About how much the database may take on the local disk, such as 10G: the lower levels lie in
    /// the object store
    #[arg(long, value_name = "BYTES", value_parser = parse_size, requires = "cloud_url")]
    pub(crate) local_bytes: Option<u64>,
}

impl CloudArgs {
    /// The library's options; `None` for what the directory says.
    pub(crate) fn options(&self) -> Option<CloudOptions> {
        Some(CloudOptions::new(self.cloud_url.clone()?, self.local_bytes?))
    }
}
