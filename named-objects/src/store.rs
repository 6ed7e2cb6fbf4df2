//! The traits of `object_store`.

use std::fmt;
use std::ops::{Bound, Range};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, RenameTargetMode, Result,
};
use spanlock_object_store::Store;
use spanlock_object_store::space::Medium;
use spanlock_range_lock::RawRangeLockBatch;

use crate::error::Error;
use crate::names::{Object, Scan, Scanned, e_tag};
use crate::objects::Objects;
use crate::parts::Uploads;
use crate::upload::Upload;

/// Bytes that a stream of content reads at a time.
const CHUNK: u64 = 1 << 20;
/// Names that a stream of names takes at a time.
const PAGE: usize = 1000;
/// Deletions that a stream makes at once.
const DELETIONS: usize = 10;

/// The named objects of a [`Store`], as an [`ObjectStore`]. A clone is another handle to the same
/// objects.
pub struct NamedObjects<M: Medium, L: RawRangeLockBatch> {
    pub(crate) objects: Arc<Objects<M, L>>,
    pub(crate) uploads: Arc<Uploads>,
}

impl<M: Medium + 'static, L: RawRangeLockBatch + 'static> NamedObjects<M, L> {
    /// Opens the objects of a store, which may be new. Reads the name block of each, in as many
    /// threads as the machine has cores, but at most 16. Deletes what an interrupted upload has
    /// left. Blocks.
    ///
    /// # Errors
    /// [`Error::Unsound`], if the store has other objects; [`Error::Unsupported`], if it is in
    /// [`Mode::Versions`](spanlock_object_store::Mode::Versions). Nothing was changed then.
    /// [`Error::Store`].
    pub fn open(store: Store<M, L>) -> Result<Self, Error> {
        Ok(NamedObjects {
            objects: Arc::new(Objects::open(store)?),
            uploads: Arc::default(),
        })
    }

    /// Returns the store, for its statistics. Do not write to it, and delete nothing: names would
    /// stay in memory.
    pub fn store(&self) -> &Store<M, L> {
        &self.objects.store
    }

    /// Does work that blocks.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Objects<M, L>>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T> {
        let objects = self.objects.clone();
        blocking(move || work(&objects)).await
    }

    /// Returns the object of a name, for a reader of its content.
    async fn object(&self, path: &Path) -> Result<Arc<Object>> {
        match self.objects.names.try_get(path) {
            Some(found) => Ok(found?),
            None => {
                let path = path.clone();
                (self.blocking(move |objects| objects.names.get(&path))).await
            }
        }
    }

    fn scan(&self, prefix: Option<&Path>, from: Bound<String>) -> Scan {
        Scan {
            prefix: prefix
                .filter(|it| !it.is_root())
                .map_or_else(String::new, |it| format!("{it}/")),
            from,
            is_by_folder: false,
            most: PAGE,
        }
    }

    /// Returns all that is to be listed, a page at a time.
    fn pages(&self, scan: Scan) -> BoxStream<'static, Result<ObjectMeta>> {
        let objects = self.objects.clone();
        let page = move |scan: Option<Scan>| {
            let mut scan = scan?;
            let found = objects.names.scan(&scan);
            let next = found.next.map(|from| {
                scan.from = from;
                scan
            });
            Some((stream::iter(found.objects.into_iter().map(Ok)), next))
        };
        stream::unfold(Some(scan), move |scan| std::future::ready(page(scan)))
            .flatten()
            .boxed()
    }
}

/// Does work that blocks: in a thread for such work if there is a runtime, else in this one.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return Ok(work()?);
    };
    match runtime.spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(error) => Err(object_store::Error::Generic {
            store: "Spanlock",
            source: error.into(),
        }),
    }
}

pub(crate) fn put_result(id: u64) -> PutResult {
    PutResult {
        e_tag: Some(e_tag(id)),
        version: None,
        extensions: Default::default(),
    }
}

fn bytes_of(path: &Path, size: u64, range: Option<&GetRange>) -> Result<Range<u64>, Error> {
    let range = range.map_or(Ok(0..size), |it| it.as_range(size));
    range.map_err(|why| Error::BadRange {
        path: path.to_string(),
        size,
        why: why.to_string(),
    })
}

#[async_trait]
impl<M: Medium + 'static, L: RawRangeLockBatch + 'static> ObjectStore for NamedObjects<M, L> {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let (path, content) = (location.clone(), Bytes::from(payload));
        let (mode, attributes) = (options.mode, options.attributes);
        let id = self.blocking(move |it| it.put(&path, &content, attributes, &mode));
        Ok(put_result(id.await?))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let path = location.clone();
        let nameless = self.blocking(move |it| it.nameless(&path, options.attributes));
        Ok(Box::new(Upload::new(self.objects.clone(), nameless.await?)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if let Some(version) = options.version {
            let what = format!("the version {version} of {location}: only the newest is kept");
            return Err(Error::Unsupported { what }.into());
        }
        let object = match options.head {
            true => self.objects.names.peek(location)?,
            false => self.object(location).await?,
        };
        let meta = object.meta(location);
        options.check_preconditions(&meta)?;
        let range = bytes_of(location, meta.size, options.range.as_ref())?;
        let attributes = object.head.attributes.clone();
        let rest = match options.head {
            true => 0..0,
            false => range.clone(),
        };
        let objects = self.objects.clone();
        let content = stream::try_unfold(rest, move |rest| {
            let (objects, object) = (objects.clone(), object.clone());
            async move {
                if rest.is_empty() {
                    return Ok(None);
                }
                let end = rest.end.min(rest.start + CHUNK);
                let chunk = blocking(move || objects.read(&object, rest.start..end)).await?;
                Ok(Some((chunk, end..rest.end)))
            }
        });
        Ok(GetResult {
            payload: GetResultPayload::Stream(content.boxed()),
            meta,
            range,
            attributes,
            extensions: Default::default(),
        })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        // From one object, unlike a get for each of them.
        let object = self.object(location).await?;
        let ranges: Result<Vec<_>, Error> = ranges
            .iter()
            .map(|it| bytes_of(location, object.head.size, Some(&it.clone().into())))
            .collect();
        let ranges = ranges?;
        self.blocking(move |objects| {
            let read = |range| objects.read(&object, range);
            ranges.into_iter().map(read).collect()
        })
        .await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let objects = self.clone();
        locations
            .map(move |location| {
                let objects = objects.clone();
                async move {
                    let path = location?;
                    (objects.blocking(move |it| it.delete(&path).map(|()| path))).await
                }
            })
            .buffered(DELETIONS)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.pages(self.scan(prefix, Bound::Unbounded))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.pages(self.scan(prefix, Bound::Excluded(offset.to_string())))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let scan = Scan {
            is_by_folder: true,
            most: usize::MAX,
            ..self.scan(prefix, Bound::Unbounded)
        };
        Ok(listed(self.objects.names.scan(&scan)).result)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (from, to) = (from.clone(), to.clone());
        let mode = match options.mode {
            CopyMode::Overwrite => PutMode::Overwrite,
            CopyMode::Create => PutMode::Create,
        };
        (self.blocking(move |it| it.copy(&from, &to, &mode).map(drop))).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let (from, to) = (from.clone(), to.clone());
        let mode = match options.target_mode {
            RenameTargetMode::Overwrite => PutMode::Overwrite,
            RenameTargetMode::Create => PutMode::Create,
        };
        (self.blocking(move |it| it.rename(&from, &to, &mode))).await
    }
}

/// A page token is the position at which the next page begins, after `=` if it is a name that is
/// to be listed, or `>` if only those after it are.
#[async_trait]
impl<M: Medium + 'static, L: RawRangeLockBatch + 'static> PaginatedListStore
    for NamedObjects<M, L>
{
    async fn list_paginated(
        &self,
        prefix: Option<&str>,
        options: PaginatedListOptions,
    ) -> Result<PaginatedListResult> {
        let from = match (options.page_token, options.offset) {
            (Some(token), _) => match token.split_at_checked(1) {
                Some(("=", name)) => Bound::Included(name.to_owned()),
                Some((_, name)) => Bound::Excluded(name.to_owned()),
                None => Bound::Unbounded,
            },
            (None, Some(offset)) => Bound::Excluded(offset),
            (None, None) => Bound::Unbounded,
        };
        let scan = Scan {
            prefix: prefix.unwrap_or_default().to_owned(),
            from,
            is_by_folder: options.delimiter.is_some(),
            most: options.max_keys.unwrap_or(PAGE),
        };
        Ok(listed(self.objects.names.scan(&scan)))
    }
}

fn listed(found: Scanned) -> PaginatedListResult {
    PaginatedListResult {
        result: ListResult {
            common_prefixes: found.folders,
            objects: found.objects,
            extensions: Default::default(),
        },
        page_token: found.next.map(|from| match from {
            Bound::Included(name) => format!("={name}"),
            Bound::Excluded(name) => format!(">{name}"),
            Bound::Unbounded => String::new(),
        }),
    }
}

impl<M: Medium, L: RawRangeLockBatch> Clone for NamedObjects<M, L> {
    fn clone(&self) -> Self {
        NamedObjects {
            objects: self.objects.clone(),
            uploads: self.uploads.clone(),
        }
    }
}

impl<M: Medium, L: RawRangeLockBatch> fmt::Debug for NamedObjects<M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedObjects")
            .field(&self.objects.store)
            .finish()
    }
}

impl<M: Medium, L: RawRangeLockBatch> fmt::Display for NamedObjects<M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spanlock")
    }
}
