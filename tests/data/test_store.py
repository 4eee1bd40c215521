"""Data files: what goes in comes out; damage is found and named; hostile files do nothing."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy import ndarray

from geonew.data.columns import column_name, column_parts, pack, unpack
from geonew.data.fingerprint import fingerprint
from geonew.data.header import Header
from geonew.data.record import Case, Record
from geonew.data.request import Request
from geonew.data.store import DataSet
from geonew.data.verify import verify
from geonew.data.writer import Writer
from geonew.errors import DataError
from problems import EXAMPLES
from square_family import Square
from zoo import ZOO

FAMILY = Square()
REQUEST = Request("square", "train", 6, 3)


def record(sample: int) -> Record:
    return FAMILY.solve(FAMILY.draw("train", REQUEST.generator(sample, 0)), "coarse")


def written(path: Path, samples: int = 6, commit_every: int = 2, order=None) -> Path:
    with Writer(path, Header("square", "train", FAMILY.problem, FAMILY.units)) as writer:
        for k, sample in enumerate(order or range(samples)):
            writer.append(pack(record(sample)))
            if (k + 1) % commit_every == 0:
                writer.commit()
        writer.commit()
    return path


def assert_same(a: Record, b: Record) -> None:
    one, two = pack(a), pack(b)
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], strict=True)
    assert a.mesh.digest == b.mesh.digest
    assert a.case == b.case


# -- what goes in comes out ------------------------------------------------------------------------


def test_records_return_to_the_last_bit(tmp_path):
    with DataSet(written(tmp_path / "d.h5")) as dataset:
        assert len(dataset) == 6
        assert dataset.problem == FAMILY.problem
        assert dataset.header.units == {"length": "m", "u": "K"}
        for sample, found in enumerate(dataset):
            assert_same(found, record(sample))
        assert_same(dataset[-1], record(5))
        with pytest.raises(IndexError, match="6 samples"):
            dataset[6]
        widths = [record(k).case.axes["width"] for k in range(6)]
        assert list(dataset.axes["width"]) == widths
        assert dataset.axes["side"] == ("left",) * 6
        assert set(dataset.parameters) == {"width", "k", "f", "luck"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_kind_of_value_is_kept(tmp_path, name):
    """Vectors, nodal parameters, solid meshes, group names that need care, missing groups."""
    problem = EXAMPLES[name]()
    mesh = ZOO["cube" if problem.dim == 3 else "square"]()
    rng = np.random.default_rng(0)
    odd = mesh.renamed({next(iter(mesh.groups)): "in/let: 100% ../.."})
    records = []
    for here in (mesh, odd, mesh):
        n, d = here.n_nodes, here.dim
        group = next(iter(here.groups))
        values = rng.normal(size=(len(here.nodes_of(group)), 1))
        records.append(
            Record(
                here,
                {"u": rng.normal(size=n), "w": rng.normal(size=(n, d))},
                {group: {"u": values}},
                Case("x", "test", {"a": [1, 2.5]}, {"b": np.float64(3)}, {"c": "word"}),
                {"s": 1.5, "nodal": rng.normal(size=n), "vector": rng.normal(size=d)},
                {"w": rng.normal(size=(n, d))},
                {group: {"w": rng.normal(size=(len(values), d))}},
                {"residual": 1e-12},
            )
        )
    with Writer(tmp_path / "d.h5", Header("x", "test", problem)) as writer:
        for one in records:
            writer.append(pack(one))
            writer.commit()
    with DataSet(tmp_path / "d.h5") as dataset:
        for found, one in zip(dataset, records, strict=True):
            assert_same(found, one)


def test_column_names_are_unambiguous():
    for names in [("a",), ("..",), (".",), ("a:b",), ("ü/€ %3A",)]:
        name = column_name("group", *names)
        assert "/" not in name
        assert column_parts(name) == ("group", *names)
    for wrong in ("group", "group:a:b", "other:a", "group:%2f", "points:x", "group:."):
        with pytest.raises(DataError, match="not the name of a column"):
            column_parts(wrong)


def test_it_travels_to_other_processes(tmp_path):
    dataset = DataSet(written(tmp_path / "d.h5"))
    assert len(pickle.dumps(dataset)) < 300
    assert_same(pickle.loads(pickle.dumps(dataset))[3], dataset[3])


def test_the_fingerprint_knows_content_not_layout(tmp_path):
    first = fingerprint(DataSet(written(tmp_path / "a.h5", commit_every=1)))
    assert first == fingerprint(DataSet(written(tmp_path / "b.h5", commit_every=4)))
    shuffled = DataSet(written(tmp_path / "c.h5", order=[3, 0, 5, 1, 2, 4]))
    assert fingerprint(shuffled).content == first.content
    repacked = tmp_path / "d.h5"
    with h5py.File(tmp_path / "a.h5") as old, h5py.File(repacked, "w") as new:
        for name in ("header", "checksum"):
            new[name] = old[name][()]
        for name, group in old["columns"].items():
            for part in ("data", "rows"):
                values = group[part][()]
                new.create_dataset(
                    f"columns/{name}/{part}", data=values, compression="gzip", shuffle=True
                )
    assert fingerprint(DataSet(repacked)).compare(first) == "identical"
    other = fingerprint(DataSet(written(tmp_path / "e.h5", samples=5)))
    assert other.compare(first) == "different"
    assert other.compare(None) == "unknown"


def test_what_does_not_fit_is_refused(tmp_path):
    columns = pack(record(0))
    with Writer(tmp_path / "d.h5", Header("square", "train", FAMILY.problem)) as writer:
        writer.append(columns)
        with pytest.raises(DataError, match="sample 1: rows of 'field:u'"):
            writer.append({**columns, "field:u": np.zeros((4, 2))})
        with pytest.raises(DataError, match="not the name of a column"):
            writer.append({"nonsense": np.zeros(1)})
        assert len(DataSet(tmp_path / "d.h5")) == 0  # nothing was committed
    with pytest.raises(DataError, match="the file exists"):
        Writer(tmp_path / "d.h5", Header("square", "train", FAMILY.problem))
    with pytest.raises(DataError, match="cannot be stored"):
        pack(Record(record(0).mesh, {}, {}, Case("x", "test", {"a": float("nan")}, {}, {})))


# -- damage ----------------------------------------------------------------------------------------


def named_sample(error: DataError) -> int:
    found = re.search(r"sample (\d+)", error.what)
    assert found, error.what
    return int(found[1])


@pytest.mark.parametrize("count", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_every_flipped_bit_is_harmless_or_named(tmp_path, count):
    """Over the whole file: either all samples are as they were, or an error names one."""
    path = written(tmp_path / "d.h5", samples=3)
    good = path.read_bytes()
    wanted = [pack(record(k)) for k in range(3)]
    rng = np.random.default_rng(1)
    places = np.unique(np.concatenate([np.arange(0, 48), rng.integers(0, len(good), count)]))
    names = []
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 << rng.integers(8)
        path.write_bytes(bad)
        try:
            with DataSet(path) as dataset:
                found = [dataset.columns(k) for k in range(len(dataset))]
        except DataError as error:
            names.append(named_sample(error))
            continue
        assert len(found) == 3
        for one, other in zip(found, wanted, strict=True):
            for name in other:
                if name != "meta":
                    np.testing.assert_array_equal(one[name], other[name])
    assert len(names) > 10
    assert set(names) <= {0, 1, 2}


def test_a_flipped_bit_in_a_field_names_its_sample(tmp_path):
    path = written(tmp_path / "d.h5")
    values = record(4).fields["u"].tobytes()
    content = bytearray(path.read_bytes())
    content[content.find(values) + 9] ^= 4
    path.write_bytes(content)
    with pytest.raises(DataError, match="sample 4 is damaged: its checksum"):
        DataSet(path)
    with DataSet(path, check=False) as dataset:  # lazily: the others can still be read
        assert_same(dataset[3], record(3))
        with pytest.raises(DataError, match="sample 4 is damaged"):
            dataset[4]
    found = verify(path)
    assert list(found.problems) == [4]
    assert not found.passed


@pytest.mark.parametrize("part", [0.0, 0.02, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file_is_named(tmp_path, part):
    path = written(tmp_path / "d.h5")
    good = path.read_bytes()
    path.write_bytes(good[: int(part * len(good))])
    with pytest.raises(DataError, match=r"truncated|not an HDF5 file") as raised:
        DataSet(path)
    assert 0 <= named_sample(raised.value) < 6


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 zip", b"\x89HDF\r\n\x1a\n", b"\x80\x04."])
def test_foreign_files_are_named(tmp_path, content):
    path = tmp_path / "d.h5"
    path.write_bytes(content)
    with pytest.raises(DataError, match="sample 0"):
        DataSet(path)
    with pytest.raises(DataError, match="no such file"):
        DataSet(tmp_path / "none.h5")


# -- hostile files ---------------------------------------------------------------------------------


def spoiled(tmp_path: Path, spoil) -> Path:
    path = written(tmp_path / "d.h5", samples=2)
    with h5py.File(path, "r+") as file:
        spoil(file, tmp_path)
    return path


def replace_data(file: h5py.File, **options) -> h5py.Dataset:
    old = file["columns/field:u/data"]
    shape = old.shape
    del file["columns/field:u/data"]
    return file["columns/field:u"].create_dataset("data", **{"shape": shape, **options})


def external_link(file, folder):
    with h5py.File(folder / "secret.h5", "w") as secret:
        secret["data"] = np.zeros(3)
    del file["columns/field:u/data"]
    file["columns/field:u/data"] = h5py.ExternalLink(str(folder / "secret.h5"), "data")


def soft_link(file, folder):
    del file["columns/field:u/data"]
    file["columns/field:u/data"] = h5py.SoftLink("/columns/source:u/data")


def dangling_link(file, folder):
    file["columns/field:w"] = h5py.SoftLink("/nowhere")


def external_storage(file, folder):
    (folder / "secret").write_bytes(bytes(8 * 10000))
    count = file["columns/field:u/data"].shape[0]
    replace_data(file, dtype="<f8", external=[(str(folder / "secret"), 0, 8 * count)])


def virtual(file, folder):
    with h5py.File(folder / "secret.h5", "w") as secret:
        secret["data"] = np.zeros(file["columns/field:u/data"].shape)
    layout = h5py.VirtualLayout(file["columns/field:u/data"].shape, "<f8")
    layout[:] = h5py.VirtualSource(str(folder / "secret.h5"), "data", layout.shape)
    del file["columns/field:u/data"]
    file["columns/field:u"].create_virtual_dataset("data", layout)


def references(file, folder):
    data = replace_data(file, dtype=h5py.ref_dtype)
    data[:] = file["header"].ref


def variable_length(file, folder):
    replace_data(file, dtype=h5py.string_dtype())


def compound(file, folder):
    replace_data(file, dtype=[("a", "<f8")])


def huge(file, folder):
    replace_data(file, shape=(2**50,), dtype="<f8", chunks=(4096,))


def huge_compressed(file, folder):
    replace_data(file, shape=(2**50,), dtype="<f8", chunks=(4096,), compression="gzip")


def unknown_filter(file, folder):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((16,))
    # 32015 is zstandard: optional, so that the file can be made without it
    plist.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
    old = file["columns/field:u/data"]
    space = h5py.h5s.create_simple(old.shape)
    del file["columns/field:u/data"]
    h5py.h5d.create(
        file["columns/field:u"].id, b"data", h5py.h5t.IEEE_F64LE, space, plist
    )  # fmt: skip


def more_objects(file, folder):
    file["script"] = np.zeros(3)


def rows_outside(file, folder):
    file["columns/field:u/rows"][1] = [0, 10**15]


def negative_rows(file, folder):
    file["columns/field:u/rows"][1] = [-5, 3]


def cycle(file, folder):
    file["columns/field:u/data2"] = file["columns"]


def other_header(file, folder):
    del file["header"]
    file["header"] = np.frombuffer(b'{"format": "other"}', dtype=np.uint8)


def deep_header(file, folder):
    del file["header"]
    file["header"] = np.frombuffer(b'{"a":' * 100000, dtype=np.uint8)


HOSTILE = [
    external_link, soft_link, dangling_link, external_storage, virtual, references,
    variable_length, compound, huge, huge_compressed, unknown_filter, more_objects, rows_outside,
    negative_rows, cycle, other_header, deep_header,
]  # fmt: skip


@pytest.mark.parametrize("spoil", HOSTILE, ids=lambda spoil: spoil.__name__)
def test_hostile_files_are_refused(tmp_path, spoil, monkeypatch):
    path = spoiled(tmp_path, spoil)
    opened = []
    import builtins

    real = builtins.open
    monkeypatch.setattr(builtins, "open", lambda *a, **k: (opened.append(a[0]), real(*a, **k))[1])
    with pytest.raises(DataError):
        DataSet(path)
    assert not [name for name in opened if "secret" in str(name)]


def test_swapped_samples_do_not_pass(tmp_path):
    """Rows that point at another sample's field are inside the file, but not what was stored."""
    path = written(tmp_path / "d.h5", samples=2)
    with h5py.File(path, "r+") as file:
        rows = file["columns/field:u/rows"]
        table: ndarray = rows[()]
        rows[...] = table[::-1]
    with pytest.raises(DataError, match="sample 0 is damaged"):
        DataSet(path)


def test_unpacking_incomplete_columns_is_refused():
    columns = pack(record(0))
    for name in ("cells", "group:left", "field:u"):
        with pytest.raises(DataError):
            unpack({key: value for key, value in columns.items() if key != name})
