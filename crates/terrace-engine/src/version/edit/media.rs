use terrace_base::{ByteReader, CodecError, put_bytes, put_varint};

use super::table::bounded_size;
use super::{FieldWriter, field};
use crate::placement::{ContainerPlace, Media};

impl Media {
    pub(super) fn put(&self, out: &mut FieldWriter<'_>) {
        if let Some(place) = &self.container {
            out.put(field::CONTAINER, |v| {
                put_bytes(v, place.path.as_bytes());
                put_varint(v, place.bytes);
                put_varint(v, place.page_bytes);
            });
        }
        if let Some(path) = &self.row_directory {
            out.put(field::ROW_DIRECTORY, |v| v.extend_from_slice(path.as_bytes()));
        }
        // If nothing lies elsewhere any more an empty list says so: an edit without a field says
        // nothing.
        if !self.log_directories.is_empty() || *self == Media::default() {
            out.put(field::LOG_DIRECTORIES, |v| {
                self.log_directories.iter().for_each(|path| put_bytes(v, path.as_bytes()));
            });
        }
    }

    /// Reads the field with this number into `media`, if it is one of the media's.
    pub(super) fn read(
        media: &mut Option<Media>,
        number: u64,
        value: &mut ByteReader<'_>,
    ) -> Result<bool, CodecError> {
        match number {
            field::CONTAINER => {
                media.get_or_insert_default().container = Some(read_container(value)?);
            }
            field::ROW_DIRECTORY => {
                media.get_or_insert_default().row_directory = Some(read_row_directory(value)?);
            }
            field::LOG_DIRECTORIES => {
                media.get_or_insert_default().log_directories = read_log_directories(value)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn read_container(reader: &mut ByteReader<'_>) -> Result<ContainerPlace, CodecError> {
    let error = reader.error("the path of L0's container is no text");
    let path = str::from_utf8(reader.bytes()?).map_err(|_| error)?.to_string();
    Ok(ContainerPlace { path, bytes: bounded_size(reader)?, page_bytes: bounded_size(reader)? })
}

fn read_row_directory(reader: &mut ByteReader<'_>) -> Result<String, CodecError> {
    let error = reader.error("the path of L0's directory is no text");
    str::from_utf8(reader.take_rest()).map(str::to_string).map_err(|_| error)
}

fn read_log_directories(reader: &mut ByteReader<'_>) -> Result<Vec<String>, CodecError> {
    let mut paths = Vec::new();
    while !reader.is_empty() {
        let error = reader.error("the path of a directory of the log is no text");
        paths.push(str::from_utf8(reader.bytes()?).map(str::to_string).map_err(|_| error)?);
    }
    Ok(paths)
}
