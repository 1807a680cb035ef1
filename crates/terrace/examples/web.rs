//! A web service over a database: notes that are put, read, deleted and listed, on axum.
//!
//! ```text
//! listening on 127.0.0.1:…
//! ```
//! ```sh
//! cargo run --features tokio --example web -- 127.0.0.1:8080 notes.db
//! curl -X PUT --data 'buy milk' http://127.0.0.1:8080/notes/1
//! curl http://127.0.0.1:8080/notes/1
//! curl http://127.0.0.1:8080/notes
//! ```
//! Without an address it takes any free port, without a directory a temporary one. It stops at the
//! end of its input, or by Ctrl-C.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use terrace::Db;
use terrace::asynchronous::{AsyncDb, AsyncKeyspace};
use tokio::io::AsyncReadExt as _;

/// An error of the database, as an answer.
struct Failed(terrace::Error);

impl From<terrace::Error> for Failed {
    fn from(error: terrace::Error) -> Failed {
        Failed(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        // What may work in a moment is not the client's fault, and neither is the rest.
        let status = match self.0.is_retryable() {
            true => StatusCode::SERVICE_UNAVAILABLE,
            false => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, format!("{}\n", self.0)).into_response()
    }
}

async fn read(
    State(notes): State<AsyncKeyspace>,
    Path(id): Path<String>,
) -> Result<Response, Failed> {
    Ok(match notes.get(id).await? {
        Some(note) => note.into_vec().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}

async fn write(
    State(notes): State<AsyncKeyspace>,
    Path(id): Path<String>,
    note: Bytes,
) -> Result<StatusCode, Failed> {
    notes.put(id, note).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn delete(
    State(notes): State<AsyncKeyspace>,
    Path(id): Path<String>,
) -> Result<StatusCode, Failed> {
    notes.delete(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The first hundred notes, one on a line.
async fn list(State(notes): State<AsyncKeyspace>) -> Result<String, Failed> {
    let mut text = String::new();
    let mut rows = notes.iter();
    for _ in 0..100 {
        let Some(row) = rows.next().await else { break };
        let (id, note) = row?;
        text.push_str(&format!("{}\t{}\n", id.escape_ascii(), note.escape_ascii()));
    }
    Ok(text)
}

/// Ends at the end of the standard input, or by Ctrl-C.
async fn until_stopped() {
    let mut input = tokio::io::stdin();
    let mut byte = [0];
    tokio::select! {
        _ = async { while input.read(&mut byte).await.is_ok_and(|bytes| bytes > 0) {} } => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

async fn serve(address: &str, db: AsyncDb) -> Result<(), Box<dyn std::error::Error>> {
    let routes = Router::new()
        .route("/notes", get(list))
        .route("/notes/{id}", get(read).put(write).delete(delete))
        .with_state(db.keyspace("notes").await?);
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, routes).with_graceful_shutdown(until_stopped()).await?;
    db.close().await?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or_else(|| "127.0.0.1:0".to_string());
    let temporary = tempfile::tempdir()?;
    let dir = words.next().map_or_else(|| temporary.path().join("notes"), Into::into);
    let db = Db::open(dir)?.asynchronous();
    let runtime = tokio::runtime::Runtime::new()?;
    let served = runtime.block_on(serve(&address, db));
    // A read of the standard input that goes on holds nobody up.
    runtime.shutdown_background();
    served
}
