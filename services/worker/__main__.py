from services.worker.service import serve
from shared.runtime.main import run_service

run_service("worker", serve)
