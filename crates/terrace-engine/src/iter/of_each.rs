/// Makes an enumeration of cursors a cursor: each call goes to the one that it is. Steps are
/// inlined, so that they are compiled together with whatever takes them.
///
/// [`Cursor`] has to be in scope.
macro_rules! cursor_of_each {
    ($kinds:ident: $($kind:ident),+) => {
        impl Cursor for $kinds {
            fn seek(&mut self, key: &[u8]) -> $crate::Result<bool> {
                match self { $($kinds::$kind(cursor) => cursor.seek(key)),+ }
            }

            fn seek_back(&mut self, bound: Option<&[u8]>) -> $crate::Result<bool> {
                match self { $($kinds::$kind(cursor) => cursor.seek_back(bound)),+ }
            }

            fn approach(&mut self, key: &[u8]) -> $crate::Result<$crate::iter::Approach> {
                match self { $($kinds::$kind(cursor) => cursor.approach(key)),+ }
            }

            fn approach_back(
                &mut self,
                bound: Option<&[u8]>,
            ) -> $crate::Result<$crate::iter::Approach> {
                match self { $($kinds::$kind(cursor) => cursor.approach_back(bound)),+ }
            }

            fn arrive(&mut self) -> $crate::Result<bool> {
                match self { $($kinds::$kind(cursor) => cursor.arrive()),+ }
            }

            #[inline]
            fn next(&mut self) -> $crate::Result<bool> {
                match self { $($kinds::$kind(cursor) => cursor.next()),+ }
            }

            #[inline]
            fn prev(&mut self) -> $crate::Result<bool> {
                match self { $($kinds::$kind(cursor) => cursor.prev()),+ }
            }

            #[inline]
            fn entry(&self) -> Option<terrace_base::EntryRef<'_>> {
                match self { $($kinds::$kind(cursor) => cursor.entry()),+ }
            }

            #[inline]
            fn key(&self) -> Option<&[u8]> {
                match self { $($kinds::$kind(cursor) => cursor.key()),+ }
            }

            #[inline]
            fn version(&self) -> Option<(&[u8], terrace_base::SeqNo)> {
                match self { $($kinds::$kind(cursor) => cursor.version()),+ }
            }

            #[inline]
            fn plain_key(&self) -> Option<&[u8]> {
                match self { $($kinds::$kind(cursor) => cursor.plain_key()),+ }
            }

            fn older(
                &mut self,
                seqno: terrace_base::SeqNo,
            ) -> $crate::Result<Option<terrace_base::EntryRef<'_>>> {
                match self { $($kinds::$kind(cursor) => cursor.older(seqno)),+ }
            }

            fn renew(&mut self, read_point: terrace_base::SeqNo) -> bool {
                match self { $($kinds::$kind(cursor) => cursor.renew(read_point)),+ }
            }
        }
    };
}
pub(crate) use cursor_of_each;
