//! DataFusion writes a Parquet table into named objects, and reads it, also after a reopening.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{Array, Int64Array};
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures_util::TryStreamExt;
use object_store::ObjectStore;
use spanlock_datafusion_test::Adapter;
use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::storage::{FileMode, FileStorage};
use spanlock_named_objects::NamedObjects;
use spanlock_object_store::space::{self, Disk, Space};
use spanlock_object_store::{Options, Store};

type InFile = NamedObjects<Disk<FileStorage>, IntervalLock>;

const ROWS: i64 = 100_000;

fn create(path: &Path) -> InFile {
    let file = Disk::create_file(path, Some(256 << 20), FileMode::Buffered).expect("a file");
    let space = Space::create(file, &space::Options::new(), IntervalLock::new()).expect("a space");
    let store = Store::create(space, &Options::new().region(64 << 20)).expect("a store");
    NamedObjects::open(store).expect("an empty store")
}

fn reopen(path: &Path) -> InFile {
    let file = Disk::open_file(path, FileMode::Buffered).expect("a file");
    let space = Space::open(file, IntervalLock::new()).expect("a space");
    let store = Store::open(space, &Options::new()).expect("a store");
    NamedObjects::open(store).expect("named objects")
}

fn context(store: &InFile) -> SessionContext {
    let context = SessionContext::new();
    let url = "spanlock://objects".parse().expect("an address");
    context.register_object_store(&url, Arc::new(Adapter(Arc::new(store.clone()))));
    context
}

/// Returns the columns of the only row of a query.
async fn numbers(context: &SessionContext, query: &str) -> Vec<i64> {
    let batches = context
        .sql(query)
        .await
        .expect("a plan")
        .collect()
        .await
        .expect("a result");
    let row = batches
        .iter()
        .find(|it| it.num_rows() == 1)
        .expect("one row");
    let number = |column: &Arc<dyn Array>| {
        let numbers = column
            .as_any()
            .downcast_ref::<Int64Array>()
            .expect("a number");
        numbers.value(0)
    };
    row.columns().iter().map(number).collect()
}

async fn check(store: &InFile) {
    let context = context(store);
    let table = "spanlock://objects/table/";
    let read = context.register_parquet("numbers", table, ParquetReadOptions::default());
    read.await.expect("a table");
    let all = "select count(*), sum(n), sum(square), max(square) from numbers";
    let squares = || (0..ROWS).map(|n| n * n % 1009);
    let expected = [
        ROWS,
        (0..ROWS).sum(),
        squares().sum(),
        squares().max().expect("rows"),
    ];
    assert_eq!(numbers(&context, all).await, expected);
    // A condition, by which whole row groups and pages are left out.
    let few = "select count(*), min(n), max(n) from numbers where n between 70000 and 70010";
    assert_eq!(numbers(&context, few).await, [11, 70_000, 70_010]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_written_and_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("objects");
    let store = create(&path);
    let written = context(&store);
    let rows = format!("select value n, value * value % 1009 square from range(0, {ROWS})");
    let rows = written.sql(&rows).await.expect("a plan");
    let options = DataFrameWriteOptions::new();
    let write = rows.write_parquet("spanlock://objects/table/", options, None);
    write.await.expect("it is written");
    drop(written);
    let files: Vec<_> = store.list(None).try_collect().await.expect("a list");
    assert!(!files.is_empty());
    assert!(
        files
            .iter()
            .all(|it| it.location.as_ref().ends_with(".parquet"))
    );
    check(&store).await;
    drop(store);
    check(&reopen(&path)).await;
}
