import os

from services.projector.service import serve
from shared.runtime.service.main import run_service

NICE = 15  # the read model may lag: the engine goes first

os.nice(NICE)
run_service("projector", serve)
