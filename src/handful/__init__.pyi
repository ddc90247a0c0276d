"""The public names and where each comes from: ``__init__.py`` imports one when it is first used."""

from .adjacency import Adjacency as Adjacency
from .batch import Batch as Batch, Sample as Sample, make_batch as make_batch
from .convert import from_networkx as from_networkx, from_pyg as from_pyg, from_scipy as from_scipy
from .convert import to_networkx as to_networkx, to_pyg as to_pyg, to_scipy as to_scipy
from .datasets import load as load
from .datasets.importer import import_tables as import_tables, update_graph as update_graph
from .errors import DatasetError as DatasetError, DivergedError as DivergedError, GraphError as GraphError
from .errors import HandfulError as HandfulError, RunError as RunError, SamplerError as SamplerError
from .estimators import NodeClassifier as NodeClassifier, NodeRegressor as NodeRegressor
from .experiment import Experiment as Experiment, Summary as Summary
from .graph import Graph as Graph
from .kernels.threads import get_threads as get_threads, set_threads as set_threads
from .nn import GAT as GAT, GCN as GCN, SAGE as SAGE, GraphLandSAGE as GraphLandSAGE, SGFormer as SGFormer
from .nn import make_model as make_model
from .pyg.stacks import accelerate as accelerate
from .predict import Prediction as Prediction
from .runs import OpenedRun as OpenedRun, open_run as open_run
from .samplers import Clusters as Clusters, FullGraph as FullGraph, Ladies as Ladies, Neighbors as Neighbors
from .samplers import RandomNodes as RandomNodes, RandomWalks as RandomWalks, Sampler as Sampler
from .samplers import induced_adjacency as induced_adjacency, make_sampler as make_sampler, register as register
from .storage import open_graph as open_graph, save as save
from .settings import Settings as Settings
from .training.assessment import Assessment as Assessment, assess as assess
from .training.callbacks import Callback as Callback
from .training.fit import fit as fit
from .training.inference import infer as infer
from .training.links import split_links as split_links
from .training.record import (
    Run as Run,
    load_model as load_model,
    load_weights as load_weights,
    save_model as save_model,
)
from .version import __version__ as __version__
