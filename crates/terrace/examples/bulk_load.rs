//! Loads many sorted rows past the log, then opens the database to read only, and walks over it
//! with a cursor, which copies nothing.
//!
//! ```text
//! loaded 100000 rows
//! read 100000 rows, 10000000 bytes of values
//! ```

use std::error::Error;
use std::ops::ControlFlow;

use terrace::{Compression, Create, Db};

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| temporary.path().join("big").into());

    let db = Db::options().create(Create::New).compression(Compression::Lz4).open(&dir)?;
    // Keys come in ascending order. Numbers in the order of bytes are numbers in big-endian form.
    let mut load = db.ingest()?;
    for number in 0..100_000_u64 {
        load.add(number.to_be_bytes(), [7; 100])?;
    }
    // Until here nothing is seen of it; from here on all of it, and it is durable.
    println!("loaded {} rows", load.finish()?.entry_count);
    db.close()?;

    let db = Db::options().read_only().open(&dir)?;
    let (mut rows, mut bytes) = (0, 0);
    db.cursor(..).for_each(|row| {
        rows += 1;
        bytes += row.value.len();
        ControlFlow::Continue(())
    })?;
    println!("read {rows} rows, {bytes} bytes of values");
    Ok(())
}
